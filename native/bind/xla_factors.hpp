// Calls of a program with factored matrices: one call factors, others compute with the arrays of the factor, and answer.
//
//     factor     A (*batch, ...), constants                      -> three arrays of a factor (*batch, ...)
//     compute    A, [b], these three, constants                  -> what is asked, flags
//     answer     as xla_stages.hpp says, with what the careful way needs before where it stands
//
//     what       results             form
//     solve      x                   v or m: a vector, or a matrix of right-hand sides
//     slogdet    sign, log |det A|   p: declined unless det A is positive
//     logabsdet  log |det A|
//     inverse    A^-1, of a sparse A conj (A^-1)_ji for each entry (i, j)
//     det        det A, of a dense A
//     adjugate   det(A) A^-1, of a dense A
//
// Each of a view of A, by the letter op. M is a kind of matrices: how one is read, factored and asked.
#pragma once
#include <atomic>

#include "kernels/team.hpp"
#include "xla_solves.hpp"
#include "xla_stages.hpp"

template <class M> class FactorCall {
    using T = typename M::Number;
    using R = Real<T>;
    struct Room : M::Room {
        std::vector<T> b, y;
    };

  public:
    explicit FactorCall(const XlaCall& call) : call_(call), what_(call.text("what")), is_matrix_(what_ == "inverse" || what_ == "adjugate"), op_(call.letter("op", "NTHC")), form_(call.letter("form")), m_(call), a_(call.argument(0)) {}

    xla::Error* run() {
        const Index count = m_.read(a_);
        if (what_ == "factor") {
            XlaCall::require(call_.arguments == 1 + M::constants && call_.results == 3);
            m_.read_constants(1);
            m_.read_factor([&](int i) { return call_.result(i); });
            return each_matrix(count, m_.operations(what_, 1), [&](Index i, Room& room) { m_.make(i, room); });
        }
        const bool is_solve = what_ == "solve", has_sign = what_ == "slogdet", is_det = what_ == "det";
        XlaCall::require(is_solve || has_sign || what_ == "logabsdet" || is_matrix_ || is_det);
        XlaCall::require(M::is_dense || !(is_det || what_ == "adjugate"));
        Stage stage(call_, 1 + is_solve, 1 + has_sign);
        const Dtype real = real_of(a_.dtype);
        if (is_solve) {
            solves_.read(a_, M::axes, call_.argument(1), call_.result(0), form_ == 'v');
            XlaCall::require(solves_.n == m_.n);
        } else if (is_matrix_)
            XlaCall::require(call_.result(0).is_like(a_));
        else if (is_det)
            XlaCall::require(is_of_each(call_.result(0), a_.dtype, count, {}));
        else
            XlaCall::require((!has_sign || is_of_each(call_.result(0), a_.dtype, count, {})) && is_of_each(call_.result(has_sign), real, count, {}));
        stage.read(is_solve ? solves_.count : count);
        const int at = stage.arguments();
        if (stage.is_answer()) {
            m_.read_entries(at);
            return careful(stage.declined());
        }
        const bool has_constants = !is_solve || M::solves_with_constants;
        XlaCall::require(call_.arguments == at + 3 + (has_constants ? M::constants : 0));
        if (has_constants) m_.read_constants(at + 3);
        m_.read_factor([&](int i) { return call_.argument(at + i); });
        std::vector<char> declined(is_solve ? solves_.count : count, 0);
        xla::Error* failed = each_matrix(count, m_.operations(what_, double(solves_.of_each) * solves_.columns), [&](Index i, Room& room) {
            const bool accepted = m_.find(i, room);
            if (is_solve)
                solves_.each(i, M::WIDE, declined.data(), [&](Index first, Index last) { return accepted && solve(first, last, room); });
            else
                declined[i] = !(accepted && answer(i, room));
        });
        if (failed) return failed;
        if (is_solve) M::count_solves(size_t(std::count(declined.begin(), declined.end(), 0)));
        stage.write(declined);
        return nullptr;
    }

  private:
    template <class F> xla::Error* each_matrix(Index count, double operations, F f) {
        const int threads = m_.share(count, xla_threads(double(count) * operations));
        std::atomic<bool> interrupted{false};
        const bool done = each<Room>(count, m_.n, threads, [&](Index i, Room& room) {
            f(i, room);
            if (M::is_interrupted(room)) interrupted = true;
            return !interrupted;
        });
        return done ? nullptr : interrupted ? xla_interrupted(call_) : call_.lacks_memory();
    }

    bool solve(Index first, Index last, Room& room) const {
        const Index n = m_.n, k = (last - first) * solves_.columns;
        const bool conjugated = op_ == 'C' && Scalar<T>::is_complex;
        const char op = op_ == 'C' ? 'N' : op_;
        if constexpr (M::keeps_b)
            if (last - first == 1 && !conjugated) return M::solve(room, solves_.right(solves_.out(first)), solves_.solution(solves_.out(first)), int(k), op);
        room.b.resize(n * k);
        room.y.resize(n * k);
        auto turned = [&](T z) { return conjugated ? conj_of(z) : z; };
        solves_.each_number(last - first, [&](Index p, Index at, Index row, Index column) {
            room.b[M::at(n, k, row, column)] = turned(solves_.right(solves_.out(first + p))[at]);
        });
        if (!M::solve(room, room.b.data(), room.y.data(), int(k), op)) return false;
        solves_.each_number(last - first, [&](Index p, Index at, Index row, Index column) {
            solves_.solution(solves_.out(first + p))[at] = turned(room.y[M::at(n, k, row, column)]);
        });
        return true;
    }

    // The count of numbers in the first result for one matrix.
    Index own_size() const { return is_matrix_ ? a_.items() / a_.batch(M::axes) : 1; }

    // Answer for one matrix what is no solution: its determinant or its inverse.
    bool answer(Index i, Room& room) const {
        auto own = [&] { return call_.result(0).template as<T>() + i * own_size(); };
        if (what_ == "inverse") return m_.inverse(own(), op_, room);
        if constexpr (M::is_dense) {
            if (what_ == "adjugate") return m_.adjugate(own(), room);
            if (what_ == "det") return m_.det(own(), room);
        }
        T sign;
        R size;
        if (!m_.slogdet(&sign, &size, room)) return false;
        if (form_ == 'p' && !is_one(sign, m_.n)) return false;
        const bool has_sign = what_ == "slogdet";
        if (has_sign) call_.result(0).template as<T>()[i] = op_ == 'H' || op_ == 'C' ? conj_of(sign) : sign;
        call_.result(has_sign).template as<R>()[i] = size;
        return true;
    }

    xla::Error* careful(const std::vector<Index>& which) const {
        auto add = [&](Careful& asked, const std::vector<Index>& of) { m_.add(asked, a_, of); };
        if (what_ == "solve") return solves_.careful(call_, which, add);
        if (which.empty()) return nullptr;
        Careful asked(call_);
        add(asked, which);
        for (int i = 0; i < call_.results; i++) asked.result(call_.result(i), own_size(), which);
        return asked.run(Index(which.size()));
    }

    const XlaCall& call_;
    const std::string what_;
    const bool is_matrix_;  // is the result like A?
    const char op_, form_;
    M m_;
    const View a_;
    Solves<T> solves_;
};
