// The fallback for declined members of a call: a Python function, on copies of these members.
#pragma once
#include <cstring>
#include <functional>

#include "xla_call.hpp"

class Careful {
  public:
    explicit Careful(const XlaCall& call) : call_(call) {}

    // The members `which` of an argument, row by row; of no batch without `which`.
    void add(const View& x, Index rows, Index columns, const std::vector<Index>& which) {
        const size_t size = size_t(rows * columns) * size_of(x.dtype);
        given_.push_back({x.dtype, rows, columns, {}});
        for (Index i : which) given_.back().bytes.append(x.as<char>() + i * size, size);
    }
    // Write the members `which` of a result here, `size` numbers each.
    void result(const View& x, Index size, std::vector<Index> which) { results_.push_back({x.as<char>(), size_t(size) * size_of(x.dtype), std::move(which)}); }
    // For a batch of `count` members; what Python raises is the error of the call.
    xla::Error* run(Index count);

  private:
    struct Given {
        Dtype dtype;
        Index rows, columns;
        std::string bytes;
    };
    struct Result {
        char* data;
        size_t step;
        std::vector<Index> which;
    };
    const XlaCall& call_;
    std::vector<Given> given_;
    std::vector<Result> results_;
};

// The number of threads that a call of so many operations may start.
int xla_threads(double operations);

// The error of a call in which Ctrl-C was pressed; Python's own error is cleared.
xla::Error* xla_interrupted(const XlaCall& call);
