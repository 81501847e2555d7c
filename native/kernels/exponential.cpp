// exp(X) = r(X / 2^s)^(2^s),  r = (V - U)^-1 (V + U), Pade's approximation of degree 3 .. 13, of X = A, or of X = A + e E with e^2 = 0.
//
// An X is one matrix, or two, A and then E. LAPACK reads rows as columns: exp(A^T) is exp(A)^T.
#include "exponential.hpp"

#include <cstring>

#include "blas.hpp"
#include "few_rows.hpp"

namespace {

constexpr int DEGREES[] = {3, 5, 7, 9, 13};
constexpr double REACH[] = {1.08e-2, 2.00e-1, 7.83e-1, 1.78, 4.74};  // |X|_1 up to which r, and its derivative, are exact to rounding
constexpr double LARGE = 50;                                        // a norm from which on digits are looked at

template <class N, class W> class Exponential {
  public:
    // parts: 1, or 2 with a derivative
    Exponential(N n, int parts, W* room, int* exchanges) : n(n), parts(parts), size(Index(n) * n), whole(size * parts), room(room), exchanges(exchanges) {}
    static constexpr int MATRICES = 10;

    // X <- exp(X), in the room's first matrix; false where X is large, or not finite.
    bool run() {
        W* x = matrix(0);
        const W mu = mean(x);
        if (!(norm(x) <= LARGE)) return false;
        const bool moves = size_of(mu) > 1;  // exp(X) = e^mu exp(X - mu I) takes fewer squarings, and loses fewer digits
        for (int i = 0; moves && i < n; i++) x[Index(i) * (n + 1)] -= mu;
        const double norm_now = norm(x) * (parts == 1 ? 1 : 1.1);  // higher derivatives of the backward error grow
        int at = 0;
        while (at < 4 && norm_now > REACH[at]) at++;
        const int steps = std::max(int(std::ceil(std::log2(norm_now / REACH[4]))), 0);
        if (norm_now > 0 && steps > 0)
            for (Index i = 0; i < whole; i++) x[i] *= std::ldexp(1.0, -steps);
        if (!approximate(DEGREES[at])) return false;
        for (int step = 0; norm_now > 0 && step < steps; step++) {
            multiply(x, x, matrix(1));
            std::memcpy(static_cast<void*>(x), matrix(1), sizeof(W) * whole);
        }
        for (Index i = 0; moves && i < whole; i++) x[i] = times(x[i], std::exp(mu));
        return all_finite(x, whole);
    }

  private:
    W* matrix(int i) const { return room + i * whole; }
    W mean(const W* x) const {
        W sum = W(0);
        for (int i = 0; i < n; i++) sum += x[Index(i) * (n + 1)];
        return sum / double(n);
    }
    // |A|_1 of A row by row; infinite or NaN where a number is.
    double norm(const W* x) const {
        double most = 0, all = 0;
        for (int c = 0; c < n; c++) {
            double sum = 0;
            for (int r = 0; r < n; r++) sum += size_of(x[Index(r) * n + c]);
            most = std::max(most, sum);
            all += sum;
        }
        return std::isfinite(all) ? most : all;
    }
    // c = a b, or c + a b, of single matrices by columns
    void one_product(const W* a, const W* b, W* c, bool adds) const {
        if constexpr (is_fixed<N>) {
            for (int j = 0; j < n; j++) {
                W sums[N::value];
                for (int i = 0; i < n; i++) sums[i] = adds ? c[j * n + i] : W(0);
                for (int l = 0; l < n; l++)
                    for (int i = 0; i < n; i++) sums[i] += times(a[l * n + i], b[j * n + l]);
                for (int i = 0; i < n; i++) c[j * n + i] = sums[i];
            }
        } else
            Kernels<W>::multiply('N', 'N', n, n, n, W(1), a, n, b, n, W(adds), c, n);
    }
    void multiply(const W* x, const W* y, W* z) const {
        one_product(x, y, z, false);
        if (parts == 1) return;
        one_product(x, y + size, z + size, false);
        one_product(x + size, y, z + size, true);
    }
    // sum of b_j powers_j, of so many of them: the first one is I unless `from` is 1
    void sum(const double* b, int from, int count, W* y) const {
        std::fill(y, y + whole, W(0));
        if (from == 0)
            for (int i = 0; i < n; i++) y[Index(i) * (n + 1)] = W(b[0]);
        for (int j = from ? 0 : 1; j < count; j++) {
            const W* power = matrix(1 + j + (from ? 0 : -1));
            for (Index i = 0; i < whole; i++) y[i] += b[2 * j] * power[i];
        }
    }
    // X <- r(X)
    bool approximate(int degree) {
        double b[14] = {1};  // of V + U
        for (int j = 1; j <= degree; j++) b[j] = b[j - 1] * (degree - j + 1) / (double(2 * degree - j + 1) * j);
        W *x = matrix(0), *odd = matrix(6), *even = matrix(7), *other = matrix(8), *spare = matrix(9);
        const int powers = degree == 13 ? 3 : degree / 2;  // X^2, X^4, ..
        multiply(x, x, matrix(1));
        for (int j = 2; j <= powers; j++) multiply(matrix(j - 1), matrix(1), matrix(j));
        if (degree == 13) {  // X^6 (..) + .., with 6 products in all
            auto both = [&](const double* high, const double* low, W* y) {
                sum(high, 1, 3, other);
                multiply(matrix(3), other, y);
                sum(low, 0, 4, other);
                for (Index i = 0; i < whole; i++) y[i] += other[i];
            };
            both(b + 9, b + 1, odd);
            both(b + 8, b, even);
        } else {
            sum(b + 1, 0, powers + 1, odd);
            sum(b, 0, powers + 1, even);
        }
        multiply(x, odd, spare);
        for (Index i = 0; i < whole; i++) {
            odd[i] = even[i] - spare[i];
            x[i] = even[i] + spare[i];
        }
        return divide(odd, x);
    }
    // Y <- X^-1 Y: X_0 Y_0' = Y_0,  X_0 Y_1' = Y_1 - X_1 Y_0'
    bool divide(W* x, W* y) const {
        if (!factor(x)) return false;
        solve(x, y);
        if (parts == 1) return true;
        W* moved = matrix(1);
        one_product(x + size, y, moved, false);
        for (Index i = 0; i < size; i++) y[size + i] -= moved[i];
        solve(x, y + size);
        return true;
    }
    bool factor(W* x) const {
        if constexpr (is_fixed<N>) return few_lu(n, x, exchanges);
        else return Kernels<W>::lu(n, x, n, exchanges);
    }
    void solve(W* lu, W* y) const {
        if constexpr (is_fixed<N>) {
            few_exchanges(n, exchanges, y, n, false);
            in_blocks(n, y, n, [&](auto width, W* some) { few_lu_solve<width>(n, lu, some, false); });
        } else {
            Kernels<W>::solve_lu('N', n, n, lu, exchanges, y);
        }
    }

    const N n;
    const int parts;
    const Index size, whole;
    W* const room;
    int* const exchanges;
};

// Has A numbers on both sides of its diagonal, or no side?
template <class T> bool is_full(const T* a, int n) {
    bool above = n == 1, below = n == 1;
    for (Index i = 0; i < n; i++)
        for (Index j = 0; j < i; j++) {
            below = below || a[i * n + j] != T(0);
            above = above || a[j * n + i] != T(0);
        }
    return above && below;
}

// exp(A), or L(A, E), or L(A, E^H)^H
template <class T> bool run(const T* a, const T* e, bool is_adjoint, T* found, int n, ExponentialWork<T>& work) {
    using W = Wide<T>;
    const Index size = Index(n) * n;
    const int parts = e ? 2 : 1;
    return with_fixed_size(n, [&](auto n) {
        W* room = work.room.grow(Exponential<decltype(n), W>::MATRICES * parts * size);
        work.exchanges.resize(n);
        for (Index i = 0; i < size; i++) room[i] = W(a[i]);
        for (Index i = 0; e && i < n; i++)
            for (Index j = 0; j < n; j++) room[size + i * n + j] = W(is_adjoint ? conj_of(e[j * n + i]) : e[i * n + j]);
        if (!Exponential<decltype(n), W>(n, parts, room, work.exchanges.data()).run()) return false;
        for (Index i = 0; i < n; i++)
            for (Index j = 0; j < n; j++) found[i * n + j] = T(is_adjoint ? conj_of(room[size + j * n + i]) : room[(parts - 1) * size + i * n + j]);
        return all_finite(found, size);
    });
}

}  // namespace

template <class T> bool expm(const T* a, T* f, int n, ExponentialWork<T>& work) {
    return is_full(a, n) && run(a, static_cast<const T*>(nullptr), false, f, n, work);
}

template <class T> bool expm_derivative(const T* a, const T* e, bool is_adjoint, T* l, int n, ExponentialWork<T>& work) { return run(a, e, is_adjoint, l, n, work); }

#define FOR(T)                                                     \
    template bool expm(const T*, T*, int, ExponentialWork<T>&);    \
    template bool expm_derivative(const T*, const T*, bool, T*, int, ExponentialWork<T>&);
EACH_NUMBER(FOR)
