// A sparse pattern, checked once, and checks of the matrices on it, for Python.
#include "calls.hpp"

#include <nanobind/nanobind.h>

#include <memory>

#include "arrays.hpp"
#include "kernels/blocks.hpp"
#include "kernels/columns.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

constexpr Index LONG = 10000;  // entries from which the GIL is released

class Pattern {
    const Index* diagonal() const { return diagonal_ ? diagonal_->as<Index>() : nullptr; }

    template <class F> auto with_columns(F f) const {
        if (starts_.dtype == Dtype::i4) return f(Columns<int32_t>{n_, starts_.as<int32_t>(), rows_.as<int32_t>()});
        return f(Columns<int64_t>{n_, starts_.as<int64_t>(), rows_.as<int64_t>()});
    }
    template <class F> auto with_floats(Dtype dtype, F f) const {
        if (dtype != Dtype::f4 && dtype != Dtype::f8 && dtype != Dtype::c8 && dtype != Dtype::c16) throw nb::type_error("values: expected floats");
        return with_type(dtype, f);
    }
    template <class F> auto without_gil(F f) const {
        if (rows_.items() < LONG) return with_columns(f);
        nb::gil_scoped_release free;
        return with_columns(f);
    }
    template <class I> bool is_sound(const Columns<I>& columns) const {
        Index entries = rows_.items();
        if (columns.starts[0] != 0 || columns.starts[n_] != entries) return false;
        for (Index j = 0; j < n_; j++)
            if (columns.starts[j] > columns.starts[j + 1]) return false;
        for (Index k = 0; k < entries; k++)
            if (columns.rows[k] < 0 || columns.rows[k] >= n_) return false;
        if (!diagonal_) return true;
        if (diagonal_->dtype != Dtype::i8 || diagonal_->items() != n_) return false;
        for (Index j = 0; j < n_; j++)
            if (diagonal()[j] < 0 || diagonal()[j] >= entries) return false;
        return true;
    }

    Array starts_, rows_;
    std::unique_ptr<Array> diagonal_;
    Index n_;

  public:
    Pattern(nb::handle starts, nb::handle rows, nb::object diagonal) : starts_(starts, false), rows_(rows, false) {
        if (!diagonal.is_none()) diagonal_ = std::make_unique<Array>(diagonal, false);
        n_ = starts_.items() - 1;
        bool whole = (starts_.dtype == Dtype::i4 || starts_.dtype == Dtype::i8) && rows_.dtype == starts_.dtype && n_ >= 0;
        if (!whole || !with_columns([&](auto columns) { return is_sound(columns); }))
            throw nb::value_error("starts, rows, diagonal: expected those of compressed columns of a square matrix, in one dtype of integers");
    }

    // (min |a_jj|, max |a_ij|, least and largest column sum of |a_ij|); the sums are written.
    nb::tuple sizes(nb::handle values, nb::handle sums) const {
        Array a(values, false), found(sums, true);
        return with_floats(a.dtype, [&](auto like) {
            using T = decltype(like);
            bool fits = a.items() == rows_.items() && found.items() == n_ && found.dtype == real_of(a.dtype);
            if (!fits) throw nb::value_error("values, sums: expected a number for each entry, and a real one for each column");
            Sizes<Real<T>> s = without_gil([&](auto columns) { return columns.sizes(a.as<T>(), diagonal(), found.as<Real<T>>()); });
            return nb::make_tuple(double(s.diagonal), double(s.entry), double(s.least_sum), double(s.most_sum));
        });
    }

    // The largest rank of a matrix with this pattern.
    Index rank() const {
        require(n_ < INT32_MAX, "starts: expected fewer columns");
        nb::gil_scoped_release free;
        return with_columns([&](auto columns) {
            const Compressed own{{columns.starts, columns.starts + n_ + 1}, {columns.rows, columns.rows + rows_.items()}};
            const std::vector<Row> row_of = matching(own);
            return Index(n_ - std::count(row_of.begin(), row_of.end(), -1));
        });
    }

    // (max |r_i|, max |x_i|, max |b_i|) of r = b - op(A) x, which is written.
    nb::tuple residual(nb::handle values, nb::handle x, nb::handle b, nb::handle r, bool transposed) const {
        Array a(values, false), given(x, false), right(b, false), found(r, true);
        return with_floats(a.dtype, [&](auto like) {
            using T = decltype(like);
            bool fits = a.items() == rows_.items() && given.items() == n_ && right.items() == n_ && found.items() == n_
                     && given.dtype == a.dtype && right.dtype == a.dtype && found.dtype == a.dtype;
            if (!fits) throw nb::value_error("values, x, b, r: expected a number for each entry, and vectors of their dtype");
            Real<T> size[3];
            without_gil([&](auto columns) {
                columns.residual(a.as<T>(), given.as<T>(), right.as<T>(), found.as<T>(), transposed);
                int i = 0;
                for (const T* v : {found.as<T>(), given.as<T>(), right.as<T>()}) size[i++] = largest_of(v, n_);
                return 0;
            });
            return nb::make_tuple(double(size[0]), double(size[1]), double(size[2]));
        });
    }
};

void bind_pattern(nb::module_& m) {
    nb::class_<Pattern>(m, "Pattern")
        .def(nb::init<nb::handle, nb::handle, nb::object>(), "starts"_a, "rows"_a, "diagonal"_a.none())
        .def("sizes", &Pattern::sizes, "values"_a, "sums"_a)
        .def("rank", &Pattern::rank)
        .def("residual", &Pattern::residual, "values"_a, "x"_a, "b"_a, "r"_a, "transposed"_a);
}
