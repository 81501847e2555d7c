// The careful way of a call that was declined: a function of Python, on copies of the members that it is about.
#pragma once
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "scalar.hpp"
#include "xla_ffi.hpp"

template <class T> constexpr char letter_of() {
    return Scalar<T>::is_complex ? (sizeof(T) == 8 ? 'F' : 'D') : (sizeof(T) == 4 ? 'f' : 'd');
}

class Careful {
  public:
    Careful(xla::Frame* frame, const std::string& rule, int n) : frame_(frame), rule_(rule), n_(n) {}

    // The members `which`, of `size` numbers each.
    template <class T> void add(const T* x, const std::vector<Index>& which, Index size) {
        letter_ = letter_of<T>();
        std::string packed;
        packed.reserve(which.size() * size * sizeof(T));
        for (Index i : which) packed.append(reinterpret_cast<const char*>(x + i * size), size * sizeof(T));
        given_.push_back(std::move(packed));
    }
    // Where the members of a result go.
    template <class T> void result(T* x, std::vector<Index> which, Index size) {
        written_.push_back({which.size() * size * sizeof(T), [x, which, size](const char* found) {
            for (Index i : which) {
                std::memcpy(static_cast<void*>(x + i * size), found, size * sizeof(T));
                found += size * sizeof(T);
            }
        }});
    }
    template <class T> void replace_result(T* x, std::vector<Index> which) {
        written_.clear();
        result(x, std::move(which), 1);
    }
    // For a batch of `count` matrices with k right-hand sides; what Python raises is the error of the call.
    xla::Error* run(Index count, Index k);

  private:
    struct Written {
        size_t bytes;
        std::function<void(const char*)> take;
    };
    xla::Frame* frame_;
    const std::string& rule_;
    int n_;
    char letter_ = 0;
    std::vector<std::string> given_;
    std::vector<Written> written_;
};

// How many threads a call may start.
int xla_threads();
