// The careful way of a call that was declined: a function of Python, on copies of the members that it is about.
#pragma once
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "kernels/scalar.hpp"
#include "xla_ffi.hpp"

template <class T> constexpr char letter_of() {
    return Scalar<T>::is_complex ? (sizeof(T) == 8 ? 'F' : 'D') : (sizeof(T) == 4 ? 'f' : 'd');
}

class Careful {
  public:
    Careful(xla::Frame* frame, const std::string& rule) : frame_(frame), rule_(rule) {}

    // The members `which` of an argument, row by row.
    template <class T> void add(const T* x, const std::vector<Index>& which, Index rows, Index columns) {
        letter_ = letter_of<T>();
        Index size = rows * columns;
        shapes_.emplace_back(rows, columns);
        std::string packed;
        packed.reserve(which.size() * size * sizeof(T));
        for (Index i : which) packed.append(reinterpret_cast<const char*>(x + i * size), size * sizeof(T));
        given_.push_back(std::move(packed));
    }
    // Rows and columns of the entries of sparse matrices, to which the first argument belongs.
    void entries(const int* pattern, Index count) { pattern_.assign(reinterpret_cast<const char*>(pattern), 2 * count * sizeof(int)); }
    // Where the members of a result go.
    template <class T> void result(T* x, std::vector<Index> which, Index size) {
        written_.push_back({which.size() * size * sizeof(T), [x, which, size](const char* found) {
            for (Index i : which) {
                std::memcpy(static_cast<void*>(x + i * size), found, size * sizeof(T));
                found += size * sizeof(T);
            }
        }});
    }
    // For a batch of `count` members; what Python raises is the error of the call.
    xla::Error* run(Index count);

  private:
    struct Written {
        size_t bytes;
        std::function<void(const char*)> take;
    };
    xla::Frame* frame_;
    const std::string& rule_;
    char letter_ = 0;
    std::string pattern_;
    std::vector<std::string> given_;
    std::vector<std::pair<Index, Index>> shapes_;
    std::vector<Written> written_;
};

// How many threads a call of so many operations may start.
int xla_threads(double operations);

// The error of a call in which Ctrl-C was pressed; it is Python's no more.
xla::Error* xla_interrupted(xla::Frame* frame);
