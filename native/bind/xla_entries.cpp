// Products with the entries of a sparse matrix in programs: `what` is "product", op(S) x, or "sampled", u v^H at the places of the entries. Each
// argument has the batch of the result, or none.
#include "xla_handlers.hpp"

#include <algorithm>

#include "kernels/entries.hpp"
#include "xla_call.hpp"

// The numbers of an argument for the i-th member of a batch.
template <class T> static const T* member(const View& x, Index i, int own, Index count) {
    const Index size = x.items() / x.batch(own);
    XlaCall::require(x.batch(own) == 1 || x.batch(own) == count);
    return x.as<T>() + (x.batch(own) == 1 ? 0 : i * size);
}

// So many numbers from 0 to below `bound`.
static const int* places(const View& x, Index count, Index bound) {
    XlaCall::require(x.dtype == Dtype::i4 && x.items() == count);
    const int* found = x.as<int>();
    unsigned most = 0;  // a negative number is a large one
    for (Index i = 0; i < count; i++) most = std::max(most, unsigned(found[i]));
    XlaCall::require(Index(most) < bound);
    return found;
}

xla::Error* xla_entries(xla::Frame* frame) {
    return answered(frame, [](const XlaCall& call) {
        XlaCall::require(call.results == 1 && (call.text("what") == "product" || call.text("what") == "sampled"));
        const bool is_product = call.text("what") == "product", conjugated = call.letter("conjugated", "01") == '1';
        const View left = call.argument(0), right = call.argument(1), out = call.result(0);
        XlaCall::require(left.dtype == out.dtype && right.dtype == out.dtype && left.rank >= 1 && right.rank >= 2 && out.rank >= 1 && left.items() && right.items() && out.items());
        const Index n = right.axis(2), k = right.axis(1);
        if (is_product) {
            XlaCall::require((call.arguments == 4 || call.arguments == 5) && out.rank >= 2 && out.axis(1) == k);
            const Index m = out.axis(2), entries = left.axis(1), count = out.batch(2);
            const int* order = call.arguments == 5 ? places(call.argument(4), entries, entries) : nullptr;
            const ByRow by_row{m, places(call.argument(2), m + 1, entries + 1), places(call.argument(3), entries, n), order};
            return with_floats(out, [&](auto like) {
                using T = decltype(like);
                for (Index i = 0; i < count; i++)
                    with_fixed_size(int(k), [&](auto k) { sparse_product(by_row, conjugated, member<T>(left, i, 1, count), member<T>(right, i, 2, count), out.as<T>() + i * m * k, k); });
                return static_cast<xla::Error*>(nullptr);
            });
        }
        XlaCall::require(call.arguments == 4 && left.rank >= 2 && left.axis(1) == k);
        const Index m = left.axis(2), entries = out.axis(1), count = out.batch(1);
        const int *rows = places(call.argument(2), entries, m), *columns = places(call.argument(3), entries, n);
        return with_floats(out, [&](auto like) {
            using T = decltype(like);
            for (Index i = 0; i < count; i++) {
                const T *u = member<T>(left, i, 2, count), *v = member<T>(right, i, 2, count);
                T* to = out.as<T>() + i * entries;
                with_fixed_size(int(k), [&](auto k) {
                    for (Index e = 0; e < entries; e++) to[e] = inner_product(u + Index(rows[e]) * k, v + Index(columns[e]) * k, k);
                });
                if (conjugated) conjugate(to, entries);
            }
            return static_cast<xla::Error*>(nullptr);
        });
    });
}
