// Helpers for the calls of dense and of sparse factors. Such a factor has `of`, a variant of factors of the four dtypes, `dtype`, `is_wrapped`,
// nbytes() and the registry of its kind.
#pragma once
#include <complex>
#include <cstring>
#include <memory>
#include <variant>

#include "arrays.hpp"

template <template <class> class Of>
using AnyOf = std::variant<std::unique_ptr<Of<float>>, std::unique_ptr<Of<double>>, std::unique_ptr<Of<std::complex<float>>>, std::unique_ptr<Of<std::complex<double>>>>;

inline char one_of(const char* name, const char* choices) {
    require(name[0] && !name[1] && std::strchr(choices, name[0]), choices);
    return name[0];
}

// Call f() without the GIL; false if there is no memory. Ctrl-C raises KeyboardInterrupt.
template <class F> bool without_gil(F f) {
    bool ok = false;
    {
        nanobind::gil_scoped_release free;
        try {
            ok = f();
        } catch (const std::bad_alloc&) {
        }
    }
    if (PyErr_Occurred()) throw nanobind::python_error();
    return ok;
}

template <class Factor> bool slogdet_of(Factor& self, nanobind::handle sign, nanobind::handle size) {
    Array signs(sign, true), sizes(size, true);
    return std::visit([&](auto& own) {
        using D = std::decay_t<decltype(*own)>;
        require(signs.dtype == self.dtype && sizes.dtype == real_of(self.dtype) && signs.items() == own->count && sizes.items() == own->count,
                "sign, size: expected one number for each matrix");
        return without_gil([&] { return own->slogdet(signs.as<typename D::Number>(), sizes.as<typename D::R>()); });
    }, self.of);
}

// The number and the bytes of the factors in memory that no Python object holds.
template <class Factor> nanobind::tuple count_live_factors() {
    size_t entries = 0, bytes = 0;
    Factor::registry.each([&](const Factor& factor) {
        if (factor.is_wrapped) return;
        entries += size_t(factor.own_factors());
        bytes += factor.nbytes();
    });
    return nanobind::make_tuple(entries, bytes);
}
