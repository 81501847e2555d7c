// A = L D U by fronts, as Python asks for it: an answer, or None where there is no memory.
#include "block_lu_calls.hpp"

#include <variant>

#include "arrays.hpp"
#include "attempted.hpp"
#include "block_lu.hpp"
#include "calls.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

template <class T> using Owned = std::unique_ptr<BlockLu<T>>;

class BlockLuCalls {
    template <class F> auto visit(F f) const {
        return std::visit([&](auto& own) { return f(*own); }, of_);
    }

  public:
    using Any = std::variant<Owned<float>, Owned<double>, Owned<std::complex<float>>, Owned<std::complex<double>>>;
    BlockLuCalls(Any of, Dtype dtype) : of_(std::move(of)), dtype_(dtype) {}

    bool solve(nb::handle x, bool transposed, int threads) const {
        Array found(x, true);
        return visit([&](auto& own) {
            require(found.dtype == dtype_ && found.ndim() == 2 && found.axis(2) == own.fronts().n && found.axis(1) < (Index(1) << 31),
                    "x: expected n rows of the dtype of A");
            Crew crew(threads);
            return attempted(crew, [&] { return own.solve(numbers(own, found), found.axis(1), transposed, crew); });
        });
    }
    // log |det|, and the real and imaginary part of det / |det|
    nb::tuple slogdet() const {
        return visit([](auto& own) {
            typename std::decay_t<decltype(own)>::Number sign;
            const double size = own.log_det(sign);
            const std::complex<double> both(sign);
            return nb::make_tuple(size, both.real(), both.imag());
        });
    }
    bool inverse(nb::handle slots, int threads) {
        Array found(slots, true);
        return visit([&](auto& own) {
            require_slots(found, own);
            Crew crew(threads);
            return attempted(crew, [&] { return own.inverse(numbers(own, found), crew); });
        });
    }
    bool tangent(nb::handle e, nb::handle slots, int threads) {
        Array given(e, false), found(slots, true);
        return visit([&](auto& own) {
            require_slots(given, own);
            require_slots(found, own);
            Crew crew(threads);
            return attempted(crew, [&] { return own.tangent(numbers(own, given), numbers(own, found), crew); });
        });
    }
    size_t nbytes() const {
        return visit([](auto& own) { return own.nbytes(); });
    }

  private:
    template <class C> static typename C::Number* numbers(const C&, const Array& x) { return x.as<typename C::Number>(); }
    template <class C> void require_slots(const Array& x, const C& own) const {
        require(x.dtype == dtype_ && x.items() == Index(own.fronts().both.size()), "e, slots: expected a number for each slot of A");
    }
    Any of_;
    Dtype dtype_;
};

nb::object block_lu(std::shared_ptr<const Fronts> fronts, nb::handle values, int threads) {
    Array a(values, false);
    require(a.dtype != Dtype::none && a.dtype < Dtype::i4, "values: expected floats");
    require(a.items() == Index(fronts->both.size()), "values: expected a number for each slot that was located");
    return with_type(a.dtype, [&](auto like) -> nb::object {
        using T = decltype(like);
        Crew crew(threads);
        auto made = std::make_unique<BlockLu<T>>(std::move(fronts));
        if (attempted(crew, [&] { return made->factor(a.as<T>(), crew); })) return nb::cast(new BlockLuCalls(std::move(made), a.dtype), nb::rv_policy::take_ownership);
        return made->refused() < 0 ? nb::none() : nb::object(nb::int_(made->refused()));
    });
}

void bind_block_lu(nb::module_& m) {
    nb::class_<BlockLuCalls>(m, "BlockLu")
        .def("solve", &BlockLuCalls::solve, "x"_a, "transposed"_a, "threads"_a)
        .def("slogdet", &BlockLuCalls::slogdet)
        .def("inverse", &BlockLuCalls::inverse, "slots"_a, "threads"_a)
        .def("tangent", &BlockLuCalls::tangent, "e"_a, "slots"_a, "threads"_a)
        .def_prop_ro("nbytes", &BlockLuCalls::nbytes);
}
