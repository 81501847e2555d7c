// op(T) Z + Z op(S) = F for upper triangles T and S by columns, or quasi-triangles of real numbers; op is N, or C, the conjugate transpose.
//
// LAPACK's trsyl takes one vector at a time: the larger triangle is split in the middle, which leaves two equations and a product.
#pragma once
#include "blas.hpp"

template <class T> struct Quasi {
    const T* at;
    Index n, ld;

    const T& operator()(Index i, Index j) const { return at[j * ld + i]; }
    // The row at which T is split, never inside of a block of order 2.
    Index middle() const { return (*this)(n / 2, n / 2 - 1) != T(0) ? n / 2 + 1 : n / 2; }
    Quasi first(Index i) const { return {at, i, ld}; }
    Quasi rest(Index i) const { return {&(*this)(i, i), n - i, ld}; }
};

// Z in the place of F; false where LAPACK changed an eigenvalue, or the scale.
template <class T> bool triangular_sylvester(char op, Quasi<T> t, Quasi<T> s, T* z, Index ldz) {
    constexpr Index FEW = 24;  // rows for which trsyl is as fast as a product
    const bool plain = op == 'N';
    if (std::max(t.n, s.n) <= FEW) {
        char letter = plain || Scalar<T>::is_complex ? op : 'T';
        int sign = 1, rows = int(t.n), columns = int(s.n), ldt = int(t.ld), lds = int(s.ld), ld = int(ldz), info = 0;
        Real<T> scale = 1;
        Lapack<T>::trsyl(&letter, &letter, &sign, &rows, &columns, const_cast<T*>(t.at), &ldt, const_cast<T*>(s.at), &lds, z, &ld, &scale, &info);
        return info == 0 && scale == 1;
    }
    char adjoint = Scalar<T>::is_complex ? 'C' : 'T';
    if (t.n >= s.n) {  // the last rows stand alone, or of op(T) = T^H the first ones
        const Index i = t.middle();
        T *one = plain ? z + i : z, *two = plain ? z : z + i;
        const Quasi<T> of_one = plain ? t.rest(i) : t.first(i), of_two = plain ? t.first(i) : t.rest(i);
        if (!triangular_sylvester(op, of_one, s, one, ldz)) return false;
        Kernels<T>::multiply(plain ? 'N' : adjoint, 'N', of_two.n, s.n, of_one.n, T(-1), &t(0, i), t.ld, one, ldz, T(1), two, ldz);
        return triangular_sylvester(op, of_two, s, two, ldz);
    }
    const Index i = s.middle();
    T *one = plain ? z : z + i * ldz, *two = plain ? z + i * ldz : z;
    const Quasi<T> of_one = plain ? s.first(i) : s.rest(i), of_two = plain ? s.rest(i) : s.first(i);
    if (!triangular_sylvester(op, t, of_one, one, ldz)) return false;
    Kernels<T>::multiply('N', plain ? 'N' : adjoint, t.n, of_two.n, of_one.n, T(-1), one, ldz, &s(0, i), s.ld, T(1), two, ldz);
    return triangular_sylvester(op, t, of_two, two, ldz);
}
