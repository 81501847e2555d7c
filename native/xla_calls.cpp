// The calls of XLA's programs, and Python beside them: the careful way, and the number of threads.
#include "calls.hpp"

#include <atomic>

#include "arrays.hpp"
#include "program_patterns.hpp"
#include "xla_careful.hpp"
#include "xla_handlers.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

static std::atomic<int> threads{1};

constexpr double SMALL = 1 << 20;  // operations that are done sooner than threads are started

int xla_threads(double operations) { return operations < SMALL ? 1 : threads.load(std::memory_order_relaxed); }

xla::Error* Careful::run(Index count) {
    nb::gil_scoped_acquire python;
    try {
        nb::list arrays, shapes;
        for (auto& shape : shapes_) shapes.append(nb::make_tuple(shape.first, shape.second));
        for (const std::string& x : given_) arrays.append(nb::bytes(x.data(), x.size()));
        nb::object found = nb::module_::import_("ldiv.rules.careful").attr("answer")(nb::str(rule_.c_str(), rule_.size()), nb::str(&letter_, 1), count, shapes, arrays, nb::bytes(pattern_.data(), pattern_.size()));
        for (size_t i = 0; i < written_.size(); i++) {
            Array x(found[i], false);
            if (x.bytes() != written_[i].bytes) throw std::runtime_error("the careful way gave another shape");
            written_[i].take(x.as<char>());
        }
    } catch (const nb::python_error& error) {  // its own words, without the frames above this call
        nb::str name(error.type().attr("__name__")), words(error.value());
        return xla::error(frame_, xla::INTERNAL, (std::string(name.c_str()) + ": " + words.c_str()).c_str());
    } catch (const std::exception& error) {
        return xla::error(frame_, xla::INTERNAL, error.what());
    }
    return nullptr;
}

void bind_xla_calls(nb::module_& m) {
    m.def("xla_calls", [] {
        nb::dict calls;
        calls["ldiv_dense_1"] = nb::capsule(reinterpret_cast<void*>(&xla_dense));
        calls["ldiv_sparse_2"] = nb::capsule(reinterpret_cast<void*>(&xla_sparse));
        calls["ldiv_triangles_1"] = nb::capsule(reinterpret_cast<void*>(&xla_triangles));
        return calls;
    });
    // (factorizations, solves) of sparse matrices, and how these counts and what is known of patterns are forgotten.
    m.def("xla_counts", [] { return nb::make_tuple(xla_factorizations.load(), xla_solves.load()); });
    m.def("forget_xla", [] {
        xla_factorizations = xla_solves = 0;
        forget_program_patterns();
    });
    m.def("set_xla_threads", [](int k) { threads = k; }, "k"_a);
}
