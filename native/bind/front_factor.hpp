// A factor by fronts of any of the four dtypes, as Python asks for it: an answer, or None where there is no memory.
#pragma once
#include <variant>

#include "arrays.hpp"
#include "attempted.hpp"
#include "kernels/crew.hpp"

// `Calls` is the class that Python knows; its slots(fronts) says how many numbers the matrix has there, or -1 before they are located.
template <class Calls, template <class> class F> class FrontFactor {
    template <class T> using Owned = std::shared_ptr<F<T>>;

  public:
    using Any = std::variant<Owned<float>, Owned<double>, Owned<std::complex<float>>, Owned<std::complex<double>>>;
    FrontFactor(Any of, Dtype dtype) : of_(std::move(of)), dtype_(dtype) {}

    // That of the values in the slots; or the supernode that was refused; or None.
    static nanobind::object factor(std::shared_ptr<const Fronts> fronts, nanobind::handle values, int threads) {
        Array a(values, false);
        require(a.dtype != Dtype::none && a.dtype < Dtype::i4, "values: expected floats");
        require(a.items() == Calls::slots(*fronts), "values: expected a number for each slot that was located");
        return with_type(a.dtype, [&](auto like) -> nanobind::object {
            using T = decltype(like);
            Crew crew(threads);
            auto made = std::make_shared<F<T>>(std::move(fronts));
            if (attempted(crew, [&] { return made->factor(a.as<T>(), crew); })) return nanobind::cast(new Calls(std::move(made), a.dtype), nanobind::rv_policy::take_ownership);
            return made->refused() < 0 ? nanobind::none() : nanobind::object(nanobind::int_(made->refused()));
        });
    }
    // solve(own, numbers of X, columns, crew): whether X (n, k) is that of an answer.
    template <class Solve> bool solve_by(nanobind::handle x, int threads, Solve solve) const {
        Array found(x, true);
        return visit([&](auto& own) {
            require(found.dtype == dtype_ && found.ndim() == 2 && found.axis(2) == own.fronts().n && found.axis(1) < (Index(1) << 31),
                    "x: expected n rows of the dtype of A");
            Crew crew(threads);
            return attempted(crew, [&] { return solve(own, numbers(own, found), found.axis(1), crew); });
        });
    }
    bool inverse(nanobind::handle slots, int threads) {
        Array found(slots, true);
        return visit([&](auto& own) {
            require_slots(found, own);
            Crew crew(threads);
            return attempted(crew, [&] { return own.inverse(numbers(own, found), crew); });
        });
    }
    bool tangent(nanobind::handle e, nanobind::handle slots, int threads) {
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

  protected:
    template <class Do> auto visit(Do f) const {
        return std::visit([&](auto& own) { return f(*own); }, of_);
    }
    template <class C> static typename C::Number* numbers(const C&, const Array& x) { return x.as<typename C::Number>(); }
    template <class C> void require_slots(const Array& x, const C& own) const {
        require(x.dtype == dtype_ && x.items() == Calls::slots(own.fronts()), "e, slots: expected a number for each slot of A");
    }
    Any of_;
    Dtype dtype_;
};
