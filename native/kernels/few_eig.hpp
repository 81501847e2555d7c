// A X = X B of a real matrix of few rows by Francis' steps, where LAPACK takes longer to begin than to end; by columns.
//
// A = Q H Q^T with H upper Hessenberg, then quasi-triangular; B has lam, or [a b; -b a] of a pair lam = a + i b, conj(lam), beside each
// other, and X the vectors, or their real and imaginary parts. Shifts are LAPACK's, so that the order is, too, but for one in a
// hundred. What does not converge, or overflows, is for LAPACK.
#pragma once
#include "few_rows.hpp"

constexpr int FEW_PAIRS = 8;  // rows

template <class R> struct FewSchur {
    int n;
    R *h, *q;  // q may be null: then only the rows and columns that are still coupled are kept up

    // H <- P H P and Q <- Q P of P = I - b v v^T, which moves `count` rows from k on; columns of H from `left` on, rows before `below`
    void reflect(const R* v, R b, int k, int count, int left, int right, int above, int below) {
        auto by_columns = [=](R* m, int from, int to) {
            for (int i = from; i < to; i++) {
                R sum = 0;
                for (int c = 0; c < count; c++) sum += m[i + (k + c) * n] * v[c];
                for (int c = 0; c < count; c++) m[i + (k + c) * n] -= b * sum * v[c];
            }
        };
        for (int j = left; j < right; j++) {
            R sum = 0, *column = h + j * n + k;
            for (int c = 0; c < count; c++) sum += column[c] * v[c];
            for (int c = 0; c < count; c++) column[c] -= b * sum * v[c];
        }
        by_columns(h, above, below);
        if (q) by_columns(q, 0, n);
    }

    // v <- v + sign(v_0) |v| e_0, so that I - b v v^T maps it on e_0; b, or 0 of nothing
    static R reflector(R* v, int count) {
        R squares = 0;
        for (int c = 0; c < count; c++) squares += v[c] * v[c];
        const R size = std::copysign(std::sqrt(squares), v[0]);
        v[0] += size;
        return size == 0 ? R(0) : 1 / (size * v[0]);
    }

    void to_hessenberg() {
        R v[FEW_PAIRS];
        for (int k = 0; k + 2 < n; k++) {
            const int count = n - k - 1;
            std::copy(h + k * n + k + 1, h + (k + 1) * n, v);
            reflect(v, reflector(v, count), k + 1, count, k, n, 0, n);
            std::fill(h + k * n + k + 2, h + (k + 1) * n, R(0));
        }
    }

    // The block of rows k and k + 1: its eigenvalues, and H triangular there where they are real
    void split(int k, std::complex<R>* lam) {
        R &a = h[k + k * n], &b = h[k + (k + 1) * n], &c = h[k + 1 + k * n], &d = h[k + 1 + (k + 1) * n];
        const R half = (a - d) / 2, square = half * half + b * c;
        if (square < 0) {
            lam[0] = {d + half, std::sqrt(-square)};
            lam[1] = std::conj(lam[0]);
            return;
        }
        const R z = half + std::copysign(std::sqrt(square), half), first = d + z, second = z == 0 ? d : d - b * c / z, size = std::hypot(z, c);
        const R turn[2] = {size == 0 ? R(1) : z / size, size == 0 ? R(0) : c / size};
        auto rotate = [&](R* x, R* y, int from, int to, int step) {
            for (int i = from; i < to; i++) {
                const R u = x[i * step], w = y[i * step];
                x[i * step] = turn[0] * u + turn[1] * w;
                y[i * step] = turn[0] * w - turn[1] * u;
            }
        };
        rotate(h + k, h + k + 1, k, q ? n : k + 2, n);
        rotate(h + k * n, h + (k + 1) * n, q ? 0 : k, k + 2, 1);
        if (q) rotate(q + k * n, q + (k + 1) * n, 0, n, 1);
        c = 0;
        lam[0] = a = first;
        lam[1] = d = second;
    }

    // False where the steps do not end.
    bool to_triangle(std::complex<R>* lam) {
        constexpr int MOST = 30, UNUSUAL = 10;
        auto at = [this](int i, int j) -> R& { return h[i + j * n]; };
        R norm = 0;
        for (int i = 0; i < n * n; i++) norm = std::max(norm, std::fabs(h[i]));
        for (int last = n - 1, steps = 0; last >= 0;) {
            int first = last;
            for (; first > 0; first--) {
                const R beside = std::fabs(at(first, first)) + std::fabs(at(first - 1, first - 1));
                if (std::fabs(at(first, first - 1)) <= eps<R> * (beside > 0 ? beside : norm)) break;
            }
            if (first > 0) at(first, first - 1) = 0;
            if (first >= last - 1) {
                if (first == last) lam[last] = at(last, last);
                else split(first, lam + first);
                last = first - 1;
                steps = 0;
                continue;
            }
            if (++steps > MOST) return false;
            // two shifts, by their sum and product: eigenvalues of the last block, of real ones the one that is nearer to its last number
            const R middle = (at(last - 1, last - 1) + at(last, last)) / 2, half = at(last - 1, last - 1) - middle;
            const R square = half * half + at(last - 1, last) * at(last, last - 1), root = std::sqrt(std::fabs(square)), nearer = middle + std::copysign(root, -half);
            R sum = 2 * (square < 0 ? middle : nearer), product = square < 0 ? middle * middle - square : nearer * nearer;
            if (steps % UNUSUAL == 0) {  // others where these lead nowhere
                const R size = std::fabs(at(last, last - 1)) + std::fabs(at(last - 1, last - 2)), shift = at(last, last) + R(0.75) * size;
                sum = 2 * shift, product = shift * shift + R(0.4375) * size * size;
            }
            // the first column of H^2 - sum H + product I, and its bulge, which is chased to the end
            const R corner = at(first, first), below = at(first + 1, first);
            R v[3] = {corner * (corner - sum) + at(first, first + 1) * below + product, below * (corner + at(first + 1, first + 1) - sum), below * at(first + 2, first + 1)};
            const R size = std::fabs(v[0]) + std::fabs(v[1]) + std::fabs(v[2]);
            for (R& x : v) x /= size;  // numbers near 1, whose squares are in the range
            for (int k = first; k < last; k++) {
                const int count = std::min(3, last - k + 1);
                if (k > first) std::copy(&at(k, k - 1), &at(k, k - 1) + count, v);
                const R b = reflector(v, count);
                reflect(v, b, k, count, std::max(k - 1, first), q ? n : last + 1, q ? 0 : first, std::min(k + 3, last) + 1);
                for (int i = 1; k > first && i < count; i++) at(k + i, k - 1) = 0;
            }
        }
        return true;
    }

    // x = D Q y of (H - lam) y = 0, |x| = 1, whose largest number is real; y_i = 0 below the block that begins with row j.
    template <class S> void vector(int j, bool pair, S lam, const R* d, S* x) const {
        const int end = j + pair;
        S y[FEW_PAIRS];
        R norm = 0;
        for (int i = 0; i < n * n; i++) norm = std::max(norm, std::fabs(h[i]));
        const R least = std::max(eps<R> * norm, std::numeric_limits<R>::min());
        y[j] = pair ? lam - h[end + end * n] : S(1);
        if (pair) y[end] = h[end + j * n];
        for (int i = j - 1; i >= 0; i--) {
            auto rest = [&](int row) {
                S sum = S(0);
                for (int c = i + 1; c <= end; c++) sum -= h[row + c * n] * y[c];
                return sum;
            };
            if (i > 0 && h[i + (i - 1) * n] != 0) {
                const S a = h[i - 1 + (i - 1) * n] - lam, e = h[i + i * n] - lam, r = rest(i - 1), s = rest(i);
                const R b = h[i - 1 + i * n], c = h[i + (i - 1) * n];
                S of_block = times(a, e) - b * c;
                if (size_of(of_block) < least * least) of_block = least * least;
                const S inverse = inverse_of(of_block);
                y[i] = times(times(a, s) - c * r, inverse);
                y[i - 1] = times(times(e, r) - b * s, inverse);
                i--;
            } else {
                S pivot = h[i + i * n] - lam;
                if (size_of(pivot) < least) pivot = least;
                y[i] = times(rest(i), inverse_of(pivot));
            }
        }
        R squares = 0;
        int most = 0;
        for (int i = 0; i < n; i++) {
            x[i] = S(0);
            for (int c = 0; c <= end; c++) x[i] += q[i + c * n] * y[c];
            x[i] *= d[i];
            squares += std::norm(x[i]);
            if (std::norm(x[i]) > std::norm(x[most])) most = i;
        }
        const S turn = Scalar<S>::is_complex ? conj_of(x[most]) / size_of(x[most]) / std::sqrt(squares) : S(1 / std::sqrt(squares));
        for (int i = 0; i < n; i++) x[i] = times(x[i], turn);
        if (Scalar<S>::is_complex) x[most] = std::real(x[most]);
    }
};

// lam of D^-1 A D, which is lost, and X of A unless it is null, with room for n^2 numbers.
template <class R> bool few_eig(R* a, const R* d, std::complex<R>* lam, R* x, R* room, int n) {
    FewSchur<R> own{n, a, x ? room : nullptr};
    for (int i = 0; x && i < n * n; i++) room[i] = i % (n + 1) ? R(0) : R(1);
    own.to_hessenberg();
    if (!own.to_triangle(lam)) return false;
    for (int j = 0; x && j < n; j++) {
        if (lam[j].imag() == 0) {
            own.vector(j, false, lam[j].real(), d, x + j * n);
            continue;
        }
        std::complex<R> both[FEW_PAIRS];
        own.vector(j, true, lam[j], d, both);
        for (int i = 0; i < n; i++) x[i + j * n] = both[i].real(), x[i + (j + 1) * n] = both[i].imag();
        j++;
    }
    return true;
}
