// Z = (L U)^-1 in the places of (L + U)^T, from the last pivot to the first, block by block:
//
//     z_ij = -sum_k u_ik / d_i z_kj  for j below i in L,     z_ki = -sum_j z_kj l_ji  for k beyond i in U,
//     z_ii = 1 / d_i - sum_k u_ik / d_i z_ki
//
// If l_ji and u_ik are entries, then L + U has the place (j, k): no other entry of Z is needed. Entries (j, i) above the blocks are zero.
// Reference: Takahashi, Fagan, Chin (1973); Erisman, Tinney, Comm. ACM 18 (1975).
#include "lu_entries.hpp"

#include <numeric>

#include "columns.hpp"

namespace {

constexpr Row NONE = -1;

// Z^T by columns, as L, U and D are: w_jk = z_kj.
template <class T> class TransposedInverse {
  public:
    TransposedInverse(const LuAnalysis& a, const LuParts<T>& f)
        : f_(f), n_(a.n), l_(f.l_start[a.n]), u_(f.u_start[a.n]), d_(a.n), below_(a.n, NONE), row_start_(a.n + 1, 0), in_row_(u_.size()), column_(u_.size()) {
        for (size_t t = 0; t < u_.size(); t++) row_start_[f.u_row[t] + 1]++;
        std::partial_sum(row_start_.begin(), row_start_.end(), row_start_.begin());
        std::vector<Index> at(row_start_.begin(), row_start_.end() - 1);
        for (Row k = 0; k < n_; k++)
            for (Index t = f.u_start[k]; t < f.u_start[k + 1]; t++) {
                Index to = at[f.u_row[t]]++;
                in_row_[to] = t;
                column_[to] = k;
            }
        for (Row i = n_ - 1; i >= 0; i--) step(i);
    }

    // Scatter column k into the dense vector x, or write zeros in its places.
    void spread(Row k, T* x, bool zeros) const {
        each(k, [&](Row j, T w) { x[j] = zeros ? T(0) : w; });
    }

  private:
    template <class F> void each(Row k, F f) const {
        for (Index t = f_.u_start[k]; t < f_.u_start[k + 1]; t++) f(f_.u_row[t], u_[t]);
        f(k, d_[k]);
        for (Index e = f_.l_start[k]; e < f_.l_start[k + 1]; e++) f(f_.l_row[e], l_[e]);
    }

    void step(Row i) {
        const Index start = f_.l_start[i], end = f_.l_start[i + 1];
        for (Index e = start; e < end; e++) {
            below_[f_.l_row[e]] = Row(e - start);
            l_[e] = T(0);
        }
        const T inverse = T(1) / f_.d[i];
        d_[i] = inverse;
        for (Index s = row_start_[i]; s < row_start_[i + 1]; s++) {
            const T ratio = times(f_.u[in_row_[s]], inverse);
            T sum = 0;
            each(column_[s], [&](Row j, T w) {
                if (below_[j] == NONE) return;
                const Index e = start + below_[j];
                sum += times(w, f_.l[e]);
                l_[e] -= times(ratio, w);
            });
            u_[in_row_[s]] = -sum;
            d_[i] += times(ratio, sum);
        }
        for (Index e = start; e < end; e++) below_[f_.l_row[e]] = NONE;
    }

    const LuParts<T>& f_;
    const Row n_;
    std::vector<T> l_, u_, d_;
    std::vector<Row> below_;  // where in column i of L a row is
    std::vector<Index> row_start_, in_row_;  // the entries of each row of U
    std::vector<Row> column_;
};

}  // namespace

template <class T> void inverse_entries(const LuAnalysis& a, const LuParts<T>& factors, T* slots) {
    TransposedInverse<T> inverse(a, factors);
    std::vector<Row> pivot_of(a.n);
    for (Row k = 0; k < a.n; k++) pivot_of[factors.place[k]] = k;
    for (Index s : a.above_slot) slots[s] = T(0);
    std::vector<T> x(a.n, T(0));
    for (Row k = 0; k < a.n; k++) {
        inverse.spread(k, x.data(), false);
        for (Index e = a.inside.starts[k]; e < a.inside.starts[k + 1]; e++) slots[a.inside_slot[e]] = x[pivot_of[a.inside.rows[e]]];
        inverse.spread(k, x.data(), true);
    }
}

#define ENTRIES(T) template void inverse_entries<T>(const LuAnalysis&, const LuParts<T>&, T*);
EACH_NUMBER(ENTRIES)
