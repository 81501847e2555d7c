// A = L D U by fronts, as Python asks for it.
#include "block_lu_calls.hpp"

#include "calls.hpp"
#include "front_factor.hpp"
#include "kernels/block_lu.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

class BlockLuCalls : public FrontFactor<BlockLuCalls, BlockLu> {
  public:
    using FrontFactor::FrontFactor;
    static Index slots(const Fronts& f) { return Index(f.both.size()); }

    bool solve(nb::handle x, bool transposed, int threads) const {
        return solve_by(x, threads, [&](auto& own, auto* to, Index k, Crew& crew) { return own.solve(to, k, transposed, crew); });
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
};

nb::object block_lu(std::shared_ptr<const Fronts> fronts, nb::handle values, int threads) { return BlockLuCalls::factor(std::move(fronts), values, threads); }

void bind_block_lu(nb::module_& m) {
    nb::class_<BlockLuCalls>(m, "BlockLu")
        .def("solve", &BlockLuCalls::solve, "x"_a, "transposed"_a, "threads"_a)
        .def("slogdet", &BlockLuCalls::slogdet)
        .def("inverse", &BlockLuCalls::inverse, "slots"_a, "threads"_a)
        .def("tangent", &BlockLuCalls::tangent, "e"_a, "slots"_a, "threads"_a)
        .def_prop_ro("nbytes", &BlockLuCalls::nbytes);
}
