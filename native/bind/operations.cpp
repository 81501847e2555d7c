// The operations of dense matrices. A new one is a row.
#include "operation.hpp"

#include "checked/dense.hpp"
#include "checked/divergence.hpp"
#include "kernels/exponential.hpp"
#include "kernels/residual.hpp"
#include "checked/orthogonal.hpp"
#include "checked/program.hpp"
#include "checked/pseudo_inverse.hpp"
#include "checked/spectra.hpp"
#include "checked/spectral.hpp"
#include "checked/sylvester.hpp"
#include "checked/triangles.hpp"

template <class T> static Triangle<T> triangle(const At<T>& at) { return {at[0], at.size('n'), at.option(0) == 'L', at.option(1) == 'U'}; }
template <class T> static Triplets<T> triplets(const At<T>& at, int first) { return {at[first], at[first + 2], at.real(first + 1)}; }

template <class R> static R unit(const R* t) { return t ? *t : R(1); }

template <class T> static Augmented<T> augmented(const At<T>& at, int first) { return {at[first], at[first + 1], at.size('m'), at.size('n'), at.size('k')}; }

template <class T> SchurForms<T> schur_forms(const At<T>& at, int first) { return {at[first], at[first + 1], at[first + 2], at[first + 3], at.size('m'), at.size('n')}; }

// f(program, work) for the program of the first arrays, of real numbers; false where their sizes do not fit each other.
template <class T> struct ProgramWork : std::conditional_t<Scalar<T>::is_complex, Nothing, typename Program<Real<T>>::Work> {};
template <class T, class F> bool for_program(const At<T>& at, ProgramWork<T>& work, F f) {
    if constexpr (Scalar<T>::is_complex) return false;
    else {
        const int n = at.size('n'), k = at.size('e') / n, m = at.size('d') / n, w = at[6] ? n : 0, rows = k + m + 2 * w;
        const Program<T> own{at[0], at[1], at[2], at[3], at[4], at[5], at[6], at[7], n, k, m, w};
        const bool fits = at.size('f') == n * n && at.size('e') == k * n && at.size('k') == k && at.size('d') == m * n && at.size('m') == m;
        if (!fits || !at[6] != !at[7] || at.size('r') != rows || at.size('t') != n + k + m + w) return false;
        f(own, work);
        return true;
    }
}

static std::vector<Operation> table() {
    std::vector<Operation> rows;
    // op(T) x = b for a triangle T, lower or upper, with a diagonal of ones or its own, and the cotangents of b and T
    rows.push_back(row<NoWork>("solve_triangular", "t:nn b:n(k)", "x:n(k)", "LU UN NTHC vm", [](auto at, auto&) {
        const auto t = triangle(at);
        return t.is_regular() && t.solve(at[1], at[2], std::max(at.size('k'), 1), at.option(2));
    }));
    rows.push_back(row<NoWork>("solve_triangular_pullback", "t:nn x_bar:n(k) x:n(k)", "b_bar:n(k) t_bar?:nn", "LU UN NT vm", [](auto at, auto&) {
        const auto t = triangle(at);
        return t.is_regular() && t.pullback(at[1], at[2], at[3], at[4], std::max(at.size('k'), 1), at.option(2));
    }));
    // b - A x, its terms summed with more digits
    rows.push_back(row<NoWork>("residual", "a:mn x:n(k) b:m(k)", "r:m(k)", "vm", [](auto at, auto&) {
        residual(at[0], at[1], at[2], at[3], at.size('m'), at.size('n'), std::max(at.size('k'), 1));
        return true;
    }));
    // A = L L^H
    rows.push_back(row<NoWork>("cholesky", "a:nn", "l:nn", "", [](auto at, auto&) { return cholesky(at[0], at[1], at.size('n')); }));
    rows.push_back(row<NoWork>("cholesky_pullback", "l:nn l_bar:nn", "a_bar:nn", "", [](auto at, auto&) { return cholesky_pullback(at[0], at[1], at[2], at.size('n')); }));
    // A[order] = L U, packed, with the exchanges of rows
    rows.push_back(row<NoWork>("lu", "a:mn", "packed:mn exchanges:p:i order:m:i", "", [](auto at, auto&) {
        return lu(at[0], at[1], at.template whole<int32_t>(2), at.template whole<int32_t>(3), at.size('m'), at.size('n'));
    }));
    // A_bar = -X^H X_bar X^H of X = A^-1, or its Hermitian part
    rows.push_back(row<Numbers>("inverse_pullback", "x_bar:nn x:nn", "a_bar:nn", "NS", [](auto at, auto& work) {
        return inverse_pullback(at[0], at[1], at[2], at.size('n'), at.option(0) == 'S', work);
    }));
    // the divergence of two normal distributions by their factors L1 and L2, and X = L2^-1 L1
    rows.push_back(row<NoWork>("divergence", "l1:nn l2:nn", "d::r x:nn", "", [](auto at, auto&) { return divergence(at[0], at[1], at.real(2), at[3], at.size('n')); }));
    rows.push_back(row<NoWork>("divergence_pullback", "l1:nn l2:nn x:nn d_bar::r", "l1_bar:nn l2_bar:nn", "", [](auto at, auto&) {
        return divergence_pullback(at[0], at[1], at[2], *at.real(3), at[4], at[5], at.size('n'));
    }));
    // A X = X diag(lam), error bounds, h = diag(lam), and what derivatives know: the same of t^2 A, but for X, which is one
    rows.push_back(probed(row<SpectralWork>("eigh", "a:nn", "lam:n:r x:nn bound?:n:r h?:nn lam_in?:n:r bound_in?:n:r h_in?:nn t?::r", "", [](auto at, auto& work) {
        return eigh(at[0], at.real(1), at[2], at.real(3), at[4], {at.real(5), at.real(6), at[7], at.real(8)}, at.size('n'), at.probe(), work);
    })));
    rows.push_back(row<SpectralWork>("eigvalsh", "a:nn", "lam:n:r", "", [](auto at, auto& work) { return eigvalsh(at[0], at.real(1), at.size('n'), work); }));
    rows.push_back(row<SpectralWork>("eigh_pullback", "lam_in:n:r x:nn bound_in:n:r t?::r lam_bar?:n:r x_bar?:nn", "a_bar:nn", "", [](auto at, auto& work) {
        return eigh_pullback(at.real(0), at[1], at.real(2), unit(at.real(3)), at.real(4), at[5], at[6], at.size('n'), work);
    }));
    // A = U diag(s) V^H, a size that is 0, h = diag(s), and s and h of t^2 A
    rows.push_back(probed(row<SpectralWork>("svd", "a:mn", "u:mp s:p:r vh:pn size?::r h?:pp s_in?:p:r h_in?:pp t?::r", "", [](auto at, auto& work) {
        if (at[4]) *at.real(4) = 0;
        return svd(at[0], at[1], at.real(2), at[3], at[5], {at.real(6), nullptr, at[7], at.real(8)}, at.size('m'), at.size('n'), at.probe(), work);
    })));
    rows.push_back(row<SpectralWork>("svdvals", "a:mn", "s:p:r", "", [](auto at, auto& work) { return svdvals(at[0], at.real(1), at.size('m'), at.size('n'), work); }));
    rows.push_back(row<SpectralWork>("svd_pullback", "u:mp s_in:p:r vh:pn t?::r u_bar?:mp s_bar?:p:r vh_bar?:pn", "a_bar:mn", "", [](auto at, auto& work) {
        return svd_pullback(triplets(at, 0), unit(at.real(3)), triplets(at, 4), at[7], at.size('m'), at.size('n'), work);
    }));
    // A V = V diag(lam), a size that is 0, h = diag(lam), and lam and h of t^2 A
    rows.push_back(probed(row<GeneralWork>("eig", "a:nn", "lam:n:c v:nn:c size?::r h?:nn:c lam_in?:n:c h_in?:nn:c t?::r", "", [](auto at, auto& work) {
        if (at[3]) *at.real(3) = 0;
        return eig(at[0], at.complex(1), at.complex(2), at.complex(4), {at.complex(5), nullptr, at.complex(6), at.real(7)}, at.size('n'), at.probe(), work);
    })));
    rows.push_back(row<GeneralWork>("eigvals", "a:nn", "lam:n:c", "", [](auto at, auto& work) { return eigvals(at[0], at.complex(1), at.size('n'), work); }));
    rows.push_back(probed(row<EigenvalueWork>("eigvals_pullback", "a:nn lam_in:n:c v:nn:c t?::r lam_bar:n:c", "a_bar:nn", "", [](auto at, auto& work) {
        return eigvals_pullback(at[0], at.complex(1), at.complex(2), unit(at.real(3)), at.complex(4), at[5], at.size('n'), at.probe(), work);
    })));
    // A = Q R
    rows.push_back(probed(row<SpectralWork>("qr", "a:mn", "q:mn r:nn", "", [](auto at, auto& work) {
        return qr(at[0], at[1], at[2], at.size('m'), at.size('n'), at.probe(), work);
    })));
    rows.push_back(probed(row<SpectralWork>("qr_pullback", "q:mn r:nn q_bar?:mn r_bar?:nn", "a_bar:mn", "", [](auto at, auto& work) {
        return qr_pullback(at[0], at[1], at[2], at[3], at[4], at.size('m'), at.size('n'), at.probe(), work);
    })));
    // R + A X = B, A^H R = C, A = Q T, and the cotangents of B, C and A
    rows.push_back(probed(row<SpectralWork>("lstsq", "a:mn b?:mk c?:nk", "q:mn t:nn r:mk x:nk", "", [](auto at, auto& work) {
        auto own = augmented(at, 3);
        return own.factor(at[0], at.probe(), work) && own.solve(at[1], at[2], at[5], at[6], work);
    })));
    rows.push_back(row<SpectralWork>("lstsq_pullback", "q:mn t:nn r:mk x:nk r_bar?:mk x_bar?:nk", "b_bar:mk c_bar:nk a_bar?:mn", "", [](auto at, auto& work) {
        return augmented(at, 0).pullback(at[2], at[3], at[4], at[5], at[6], at[7], at[8], work);
    }));
    // X = A^+ and its rank
    rows.push_back(probed(row<PinvWork>("pinv", "a:mn rtol::r atol::r", "x:nm rank::r", "", [](auto at, auto& work) {
        return pinv(at[0], *at.real(1), *at.real(2), at[3], at.real(4), at.size('m'), at.size('n'), at.probe(), work);
    })));
    rows.push_back(row<PinvWork>("pinv_pullback", "a:mn x:nm rank::r x_bar:nm", "a_bar:mn", "", [](auto at, auto& work) {
        return pinv_pullback(at[0], at[1], *at.real(2), at[3], at[4], at.size('m'), at.size('n'), work);
    }));
    // A X + X B = Q, the Schur forms of A^T and B^T by columns, and the cotangents of A, B and Q
    rows.push_back(row<SylvesterWork>("sylvester", "a:mm b:nn q:mn", "x:mn s:mm u:mm t:nn v:nn", "", [](auto at, auto& work) {
        return schur_forms(at, 4).solve(at[0], at[1], at[2], at[3], work);
    }));
    rows.push_back(row<SylvesterWork>("sylvester_pullback", "s:mm u:mm t:nn v:nn x:mn x_bar:mn", "q_bar:mn a_bar?:mm b_bar?:nn", "", [](auto at, auto& work) {
        return schur_forms(at, 0).pullback(at[4], at[5], at[7], at[8], at[6], work);
    }));
    // exp(A), its derivative L(A, E), and the adjoint of that, L(A, E^H)^H
    rows.push_back(row<ExponentialWork>("expm", "a:nn", "f:nn", "", [](auto at, auto& work) { return expm(at[0], at[1], at.size('n'), work); }));
    rows.push_back(row<ExponentialWork>("expm_derivative", "a:nn e:nn", "l:nn", "NH", [](auto at, auto& work) {
        return expm_derivative(at[0], at[1], at.option(0) == 'H', at[2], at.size('n'), work);
    }));
    // a quadratic program: K and r of the active rows, guessed or found; is the z of K z = r its solution? and the cotangents of its data
    const std::string program = "p:f q:n a?:e b?:k g?:d h?:m lb?:n ub?:n ";
    rows.push_back(row<ProgramWork>("program_system", program + "guess?:r", "k:tt r:t active:r steps::r accepted::r", "", [](auto at, auto& work) {
        return for_program(at, work, [&](auto& own, auto& work) { *at[13] = own.system(at[8], at[9], at[10], at[11], at[12], work); });
    }));
    rows.push_back(row<ProgramWork>("program_solution", program + "active:r u:t du:t", "z:t accepted::r", "", [](auto at, auto& work) {
        return for_program(at, work, [&](auto& own, auto& work) {
            std::copy(at[9], at[9] + at.size('t'), at[11]);
            *at[12] = own.is_solution(at[8], at[11], at[10], work);
        });
    }));
    rows.push_back(row<ProgramWork>("program_pullback", "active:r z:t lam:t", "q_bar:n b_bar?:k h_bar?:m p_bar?:f a_bar?:e g_bar?:d lb_bar?:n ub_bar?:n", "", [](auto at, auto&) {
        using T = std::remove_pointer_t<decltype(at[0])>;
        if constexpr (Scalar<T>::is_complex) return false;
        else {
            const int n = at.size('n'), k = at.size('k'), m = at.size('m'), w = at.size('t') - n - k - m;
            auto fits = [&](int j, char letter, int rows) { return !at[j] || at.size(letter) == rows * n; };
            if ((w != 0 && w != n) || at.size('r') != k + m + 2 * w || !fits(6, 'f', n) || !fits(7, 'e', k) || !fits(8, 'd', m)) return false;
            return Program<T>{nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, n, k, m, w}.pullback(at[0], at[1], at[2], {at[6], at[3], at[7], at[4], at[8], at[5], at[9], at[10]});
        }
    }));
    return rows;
}

const std::vector<Operation>& operations() {
    static const std::vector<Operation> all = table();
    return all;
}
