// The calls of XLA's programs, and Python beside them: the careful way, and the number of threads.
#include "calls.hpp"

#include <nanobind/stl/string.h>

#include <atomic>

#include "arrays.hpp"
#include "checked/checked_fronts.hpp"
#include "program_patterns.hpp"
#include "xla_careful.hpp"
#include "xla_handlers.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

static std::atomic<int> threads{1};

constexpr double SMALL = 1 << 20;  // operations below which starting threads takes longer

int xla_threads(double operations) { return operations < SMALL ? 1 : threads.load(std::memory_order_relaxed); }

static const char* name_of(Dtype dtype) {
    return dtype == Dtype::f4 ? "f" : dtype == Dtype::f8 ? "d" : dtype == Dtype::c8 ? "F" : dtype == Dtype::c16 ? "D" : "i";
}

xla::Error* Careful::run(Index count) {
    nb::gil_scoped_acquire python;
    try {
        nb::list arrays;
        nb::dict fields;
        for (auto& field : call_.fields) fields[field.first.c_str()] = nb::str(field.second.c_str(), field.second.size());
        for (const Given& x : given_) arrays.append(nb::make_tuple(name_of(x.dtype), nb::make_tuple(x.rows, x.columns), nb::bytes(x.bytes.data(), x.bytes.size())));
        nb::object found = nb::module_::import_("ldiv.rules.careful").attr("answer")(fields, count, arrays);
        for (size_t i = 0; i < results_.size(); i++) {
            const Result& to = results_[i];
            Array x(found[i], false);
            if (size_t(x.items()) * size_of(x.dtype) != to.which.size() * to.step) throw std::runtime_error("the careful way gave another shape");
            for (size_t j = 0; j < to.which.size(); j++) std::memcpy(to.data + to.which[j] * to.step, x.as<char>() + j * to.step, to.step);
        }
    } catch (const nb::python_error& error) {  // its own words, without the frames above this call
        nb::str name(error.type().attr("__name__")), words(error.value());
        return call_.error(xla::INTERNAL, std::string(name.c_str()) + ": " + words.c_str());
    } catch (const std::exception& error) {
        return call_.error(xla::INTERNAL, error.what());
    }
    return nullptr;
}

xla::Error* xla_interrupted(const XlaCall& call) {
    nb::gil_scoped_acquire python;
    PyErr_Clear();
    return call.error(xla::INTERNAL, "KeyboardInterrupt");
}

void bind_xla_calls(nb::module_& m) {
    m.def("xla_calls", [] {
        nb::dict calls;
        calls["ldiv_dense_3"] = nb::capsule(reinterpret_cast<void*>(&xla_dense));
        calls["ldiv_entries_1"] = nb::capsule(reinterpret_cast<void*>(&xla_entries));
        calls["ldiv_finite_3"] = nb::capsule(reinterpret_cast<void*>(&xla_finite));
        calls["ldiv_here_1"] = nb::capsule(reinterpret_cast<void*>(&xla_here));
        calls["ldiv_sparse_5"] = nb::capsule(reinterpret_cast<void*>(&xla_sparse));
        calls["ldiv_operation_1"] = nb::capsule(reinterpret_cast<void*>(&xla_operation));
        return calls;
    });
    // (factorizations, solves) of sparse matrices, and how these counts, what is known of patterns and spare blocks are forgotten.
    m.def("xla_counts", [] { return nb::make_tuple(xla_factorizations.load(), xla_solves.load()); });
    m.def("forget_xla", [] {
        xla_factorizations = xla_solves = 0;
        forget_program_patterns();
        SpareBlocks::clear();
    });
    // A pattern of Hermitian or symmetric matrices, for programs that name it: the numbers in each array of its factor.
    m.def("name_symmetric_pattern", [](const std::string& kind, const std::string& name, nb::handle places, nb::handle order, nb::handle probe) {
        Array e(places, false), o(order, false), z(probe, false);
        if (e.dtype != Dtype::i4 || o.dtype != Dtype::i4 || z.dtype != Dtype::f8 || o.items() < 1 || z.items() != o.items() || e.items() % 2) throw nb::value_error("places, order, probe: expected 32-bit integers and doubles");
        if (kind != "C" && kind != "H" && kind != "T") throw nb::value_error("kind: expected C, H or T");
        const Row n = Row(o.items()), *rows = e.as<Row>();
        const Index count = e.items() / 2;
        std::shared_ptr<ProgramPattern> found;
        {
            nb::gil_scoped_release free;
            found = program_pattern(name);
            if (!found) {
                for (Index k = 0; k < 2 * count; k++)
                    if (rows[k] < 0 || rows[k] >= n) throw std::invalid_argument("places: expected rows and columns in range");
                auto made = std::make_shared<SymmetricPattern>(kind[0], n, rows, rows + count, count, o.as<Row>());
                made->probe = std::make_shared<Direction>(z.as<double>(), n);
                found = add_program_pattern(name, std::move(made));
            }
        }
        auto* own = dynamic_cast<const SymmetricPattern*>(found->pattern.get());
        if (!own || own->kind != kind[0] || own->columns().size() != n || Index(own->rows.size()) != count) throw nb::value_error("name: it is that of another pattern");
        return nb::make_tuple(CheckedCholesky<double>::whole_size(*own), CheckedCholesky<double>::numbers_size(*own), 2);
    }, "kind"_a, "name"_a, "places"_a, "order"_a, "probe"_a);
    m.def("set_xla_threads", [](int k) { threads = k; }, "k"_a);
}
