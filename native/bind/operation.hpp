// The compiled operations of dense matrices, member by member of a batch: a row of a table describes one, for Python and for XLA.
//
//     name, "a:mn b:n(k) s:p:r order:m:i h?:pp"   arguments, "... "   results, "LU NTH"   letters of the options, kernel(at, work)
//
// A letter is the size of an axis, p = min(m, n) and (k) an axis that b has unless its option is v, a vector; r stands for real
// numbers, c for complex ones and i, l for integers of 32 and of 64 bits; one with ? may be missing. The kernel says whether it accepts:
// at[j] is array j, or null, at.real(j), at.complex(j), at.whole(j), at.size('n'), at.option(j), at.probe() are what else it may ask for.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "checked/directions.hpp"
#include "kernels/team.hpp"
#include "view.hpp"

struct Argument {
    std::string name, axes;
    char kind = 't';
    bool is_optional = false, has_columns = false;
};

constexpr int MOST_ARRAYS = 14;

// One call: arrays with a batch in front, which those of arguments may lack, and the sizes behind the letters.
struct Call {
    struct Operand {
        char* data = nullptr;
        size_t step = 0;         // bytes of a member
        std::vector<Index> of;  // the member for each of the batch; none where they are the same
    };
    Operand operands[MOST_ARRAYS];
    Index count = 0, sizes[26] = {};
    Dtype dtype = Dtype::none;
    std::string options;
    std::shared_ptr<const Direction> probe;
    char* declined = nullptr;  // of each member, where not all must be accepted

    Index size(char letter) const { return letter == 'p' ? std::min(size('m') ? size('m') : size('n'), size('n')) : sizes[letter - 'a']; }
    void* member(int j, Index i) const {
        const Operand& own = operands[j];
        return own.data ? own.data + own.step * (own.of.empty() ? i : own.of[i]) : nullptr;
    }
};

template <class T> struct At {
    const Call& call;
    Index i;
    T* operator[](int j) const { return static_cast<T*>(call.member(j, i)); }
    Real<T>* real(int j) const { return static_cast<Real<T>*>(call.member(j, i)); }
    Complex<T>* complex(int j) const { return static_cast<Complex<T>*>(call.member(j, i)); }
    template <class I> I* whole(int j) const { return static_cast<I*>(call.member(j, i)); }
    int size(char letter) const { return int(call.size(letter)); }
    char option(int j) const { return call.options[j]; }
    const Direction& probe() const { return *call.probe; }
};

struct Operation {
    std::string name;
    std::vector<Argument> arrays;
    int arguments;                     // so many of the arrays; results follow
    std::vector<std::string> options;  // the letters of each
    std::function<bool(const Call&, int threads)> run[4];
    bool is_probed = false;

    Operation(std::string name, const std::string& given, const std::string& results, const std::string& options);
    // The call of these arrays, `call.options` being set; std::invalid_argument where they do not fit. What is missing has no dtype.
    void bind(Call& call, const View* views) const;
    std::string axes(const Call& call, int j) const;  // of array j, with the columns that it has

  private:
    void bind(Call& call, int j, const View* views) const;
};

struct Nothing {};
template <class T> using NoWork = Nothing;
template <class T> using Numbers = std::vector<T>;

// A row of the table.
template <template <class> class Work, class F>
Operation row(const char* name, const std::string& given, const char* results, const char* options, F kernel) {
    Operation made(name, given, results, options);
    auto add = [&](auto like, Dtype dtype) {
        using T = decltype(like);
        made.run[int(dtype) - 1] = [kernel](const Call& call, int threads) {
            return each<Work<T>>(call.count, call.size('p'), threads, [&](Index i, Work<T>& work) {
                const bool accepted = kernel(At<T>{call, i}, work);
                if (call.declined) call.declined[i] = !accepted;
                return accepted || call.declined;
            });
        };
    };
    add(float(), Dtype::f4), add(double(), Dtype::f8), add(std::complex<float>(), Dtype::c8), add(std::complex<double>(), Dtype::c16);
    return made;
}

inline Operation probed(Operation row) { return row.is_probed = true, row; }

const std::vector<Operation>& operations();
