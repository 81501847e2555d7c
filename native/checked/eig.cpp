// A V = V diag(lam) by Schur forms (geev) in double precision, which tells defective matrices of single precision from others. Of a real
// matrix pairs lam, conj(lam) have vectors x + i y, x - i y: X has x and y in their places,
//     A X = X B,   B = [a b; -b a] of lam = a + i b,   V = X T,   T = [1 1; i -i],   T^H T = 2 I;   of complex numbers X = V, B = diag(lam).
#include "gaps.hpp"
#include "kernels/products.hpp"
#include "spectra.hpp"

namespace {

// f(j, is one of a pair?) of each single eigenvalue and the first one of each pair.
template <class T, class F> bool for_each_eigenvalue(const Complex<T>* lam, int n, F f) {
    for (int j = 0; j < n;) {
        const bool pair = !Scalar<T>::is_complex && lam[j].imag() != 0;
        if ((pair && j + 1 == n) || !f(j, pair)) return false;
        j += pair ? 2 : 1;
    }
    return true;
}

// A 2^-e by columns, whose numbers are near 1; false where A is not finite, or a number is so much smaller than the others that scaling or
// squares may lose it: geev brings such numbers together first.
template <class T, class U> bool take(const T* a, U* own, int n, int& e) {
    constexpr int FAR = std::numeric_limits<double>::max_exponent / 4;
    const double* parts = reinterpret_cast<const double*>(own);
    const Index size = Index(n) * n, count = size * Index(sizeof(U) / sizeof(double));
    transpose_rows(a, own, n, n);
    e = power_of(own, size, MODERATE);
    const double least = std::ldexp(double(1), e - FAR);
    if (!std::all_of(parts, parts + count, [=](double x) { return x == 0 || std::fabs(x) >= least; })) return false;
    times_power(own, size, -e);
    return all_finite(own, size);
}

// lam of A, which is lost, and X where the job is 'V'; by columns.
template <class T> bool decompose(char job, T* a, Complex<T>* lam, T* x, int n, SpectralWork<T>& work) {
    char none = 'N';
    int numbers = 68 * n, info = 0;  // blocks of 32 columns, and two work arrays of each
    T* room = work.work.grow(numbers);
    work.reals.resize(2 * Index(n));
    Real<T>*re = work.reals.data(), *im = re + n;
    if constexpr (Scalar<T>::is_complex)
        Lapack<T>::geev(&none, &job, &n, a, &n, lam, x, &n, x, &n, room, &numbers, re, &info);
    else {
        Lapack<T>::geev(&none, &job, &n, a, &n, re, im, x, &n, x, &n, room, &numbers, &info);
        for (int j = 0; j < n; j++) lam[j] = {re[j], im[j]};
    }
    return info == 0 && all_finite(lam, n);
}

// Is |A X w - X B w| small for one random w? By columns.
template <class T> bool is_decomposition(const T* a, const Complex<T>* lam, const T* x, int n, const Direction& probe, std::vector<T>& room) {
    room.resize(4 * Index(n));
    T *w = room.data(), *xw = w + n, *image = xw + n, *expected = image + n;
    probe.write(w, n);
    const double size = squares_of(w, n) * squares_of(a, Index(n) * n);
    map(x, n, n, true, w, xw);
    map(a, n, n, true, xw, image);
    for_each_eigenvalue<T>(lam, n, [&](int j, bool pair) {
        if constexpr (Scalar<T>::is_complex) w[j] *= lam[j];
        else {
            const T one = w[j], other = pair ? w[j + 1] : T(0), re = lam[j].real(), im = lam[j].imag();
            w[j] = re * one + im * other;
            if (pair) w[j + 1] = re * other - im * one;
        }
        return true;
    });
    map(x, n, n, true, w, expected);
    return squares_between(image, expected, n) <= ENOUGH * ENOUGH * eps<T> * eps<T> * size;
}

// lam 2^e for even e, in the precision of A.
template <class C> void narrow(const std::complex<double>* wide, C* own, int n, int e = 0) {
    const double half = std::ldexp(double(1), e / 2);
    for (int j = 0; j < n; j++) own[j] = C(wide[j] * half * half);
}

// V row by row, of X by columns.
template <class T, class C> void unpack(const T* x, const std::complex<double>* lam, C* v, int n) {
    for_each_eigenvalue<T>(lam, n, [=](int j, bool pair) {
        const T *re = x + Index(j) * n, *im = re + n;
        for (Index i = 0; i < n; i++) {
            C* at = v + i * n + j;
            at[0] = C(re[i]);
            if constexpr (!Scalar<T>::is_complex)
                if (pair) at[0] = C(Complex<T>(re[i], im[i])), at[1] = std::conj(at[0]);
        }
        return true;
    });
}

// X row by row; false where V is not that of a real matrix.
template <class T> bool pack(const Complex<T>* v, const Complex<T>* lam, T* x, int n) {
    if constexpr (Scalar<T>::is_complex) return std::copy(v, v + Index(n) * n, x), true;
    else
        return for_each_eigenvalue<T>(lam, n, [=](int j, bool pair) {
            bool fits = !pair || lam[j + 1] == std::conj(lam[j]);
            for (Index i = 0; i < n; i++) {
                const Complex<T>* at = v + i * n + j;
                x[i * n + j] = at->real();
                if (pair) x[i * n + j + 1] = at->imag();
                fits = fits && (pair ? at[1] == std::conj(*at) : at->imag() == 0);
            }
            return fits;
        });
}

// True if the eigenvalues of each cluster have equal cotangents; clusters are found in the order of the real parts.
template <class R> bool are_alike(const std::complex<R>* lam, const std::complex<R>* lam_bar, const R* errors, int n, std::vector<int>& order) {
    R most = 0, error = 0;
    order.resize(n);
    for (int j = 0; j < n; j++) {
        most = std::max(most, std::abs(lam_bar[j]));
        error = std::max(error, errors[j]);
        order[j] = j;
    }
    std::sort(order.begin(), order.end(), [=](int i, int j) { return lam[i].real() < lam[j].real(); });
    for (int k = 0; k < n; k++)
        for (int l = k + 1; l < n && Gaps<R>::is_near(lam[order[l]].real() - lam[order[k]].real(), 2 * error); l++) {
            const int i = order[k], j = order[l];
            if (Gaps<R>::is_near(std::abs(lam[i] - lam[j]), errors[i] + errors[j]) && !(std::abs(lam_bar[i] - lam_bar[j]) <= Gaps<R>::root * most)) return false;
        }
    return true;
}

// errors_j = n eps |u_j| size of the rows u_j of V^-1 = T^H X^-1 / 2; the sum of |u_j|^2.
template <class T> double find_errors(const T* inverse, const Complex<T>* lam, Real<T> size, Real<T>* errors, int n) {
    double sum = 0;
    for_each_eigenvalue<T>(lam, n, [&](int j, bool pair) {
        const double squares = pair ? squares_of(inverse + Index(j) * n, 2 * Index(n)) / 4 : squares_of(inverse + Index(j) * n, n);
        sum += pair ? 2 * squares : squares;
        errors[j] = Real<T>(n) * eps<T> * Real<T>(std::sqrt(squares)) * size;
        if (pair) errors[j + 1] = errors[j];
        return true;
    });
    return sum;
}

}  // namespace

template <class T>
bool eig(const T* a, Complex<T>* lam, Complex<T>* v, Complex<T>* h, InUnits<Complex<T>, Complex<T>> inside, int n, const Direction& probe, GeneralWork<T>& work) {
    const Index size = Index(n) * n;
    Wide<T> *given = work.a.grow(size), *own = work.b.grow(2 * size), *x = own + size;
    work.lam.resize(n);
    std::complex<double>* found = work.lam.data();
    int e = 0;
    if (!take(a, given, n, e) || !inside.serves(h, e)) return false;
    std::copy(given, given + size, own);
    if (!decompose('V', own, found, x, n, work) || !all_finite(x, size) || !is_decomposition(given, found, x, n, probe, work.vectors)) return false;
    unpack(x, found, v, n);
    narrow(found, lam, n);
    inside.take(lam, nullptr, nullptr, n, e);
    narrow(found, lam, n, e);
    set_diagonal(lam, h, n);
    return all_finite(lam, n);
}

template <class T> bool eigvals(const T* a, Complex<T>* lam, int n, GeneralWork<T>& work) {
    using W = Wide<T>;
    W *own = work.a.grow(Index(n) * n), none;
    work.lam.resize(n);
    int e = 0;
    if (!take(a, own, n, e)) return false;
    std::complex<double> trace = 0, of_square = 0;
    for (int i = 0; i < n; i++) {
        W sum = W(0);
        for (int j = 0; j < n; j++) sum += times(own[Index(i) * n + j], own[Index(j) * n + i]);
        of_square += sum;
        trace += own[Index(i) * (n + 1)];
    }
    const double norm = std::sqrt(squares_of(own, Index(n) * n)), enough = ENOUGH * eps<W> * std::sqrt(double(n)) * norm;
    if (!decompose('N', own, work.lam.data(), &none, n, work)) return false;
    for (const std::complex<double> one : work.lam) {
        trace -= one;
        of_square -= times(one, one);
    }
    narrow(work.lam.data(), lam, n, e);
    return std::abs(trace) <= enough && std::abs(of_square) <= enough * norm && all_finite(lam, n);
}

template <class T>
bool eigvals_pullback(const T* a, const Complex<T>* lam, const Complex<T>* v, Real<T> t, const Complex<T>* lam_bar, T* a_bar, int n, const Direction& probe, EigenvalueWork<T>& work) {
    using R = Real<T>;
    const Index size = Index(n) * n;
    T *x = work.room.grow(4 * size), *factor = x + size, *inverse = factor + size, *right = inverse + size;
    work.pivots.resize(n);
    work.errors.resize(n);
    Factored<T> of_x{Kind::lu, n, factor, work.pivots.data()};
    if (!pack(v, lam, x, n) || !of_x.factor(x, false, work.units, probe, work.factor) || !of_x.inverse(inverse, probe, true, work.factor)) return false;
    for (Index i = 0; i < size; i++) right[i] = a[i] * t * t;
    const double of_v = squares_of(v, size), of_u = find_errors(inverse, lam, R(std::sqrt(squares_of(right, size))), work.errors.data(), n);
    // |V|_F |V^-1|_F is no less than the condition
    if (!(INDEPENDENT * n * eps<T> * std::sqrt(of_v * of_u) < 0.5) || !are_alike(lam, lam_bar, work.errors.data(), n, work.order)) return false;
    // V^-H D V^H = X^-H (T D T^H / 2) X^H, or its real part
    for_each_eigenvalue<T>(lam, n, [=](int j, bool pair) {
        T *one = right + Index(j) * n, *other = one + n;
        if constexpr (Scalar<T>::is_complex)
            for (Index i = 0; i < n; i++) one[i] = times(lam_bar[j], conj_of(x[i * n + j]));
        else {
            const T p = pair ? (lam_bar[j].real() + lam_bar[j + 1].real()) / 2 : lam_bar[j].real(), q = pair ? (lam_bar[j].imag() - lam_bar[j + 1].imag()) / 2 : T(0);
            for (Index i = 0; i < n; i++) {
                one[i] = p * x[i * n + j];
                if (pair) one[i] += q * x[i * n + j + 1], other[i] = p * x[i * n + j + 1] - q * x[i * n + j];
            }
        }
        return true;
    });
    product<'H', 'N'>(n, inverse, right, a_bar);
    return all_finite(a_bar, size);
}

#define FOR(T)                                                                                                                                                   \
    template bool eig(const T*, Complex<T>*, Complex<T>*, Complex<T>*, InUnits<Complex<T>, Complex<T>>, int, const Direction&, GeneralWork<T>&);                 \
    template bool eigvals(const T*, Complex<T>*, int, GeneralWork<T>&);                                                                                         \
    template bool eigvals_pullback(const T*, const Complex<T>*, const Complex<T>*, Real<T>, const Complex<T>*, T*, int, const Direction&, EigenvalueWork<T>&);
EACH_NUMBER(FOR)
