// Find the rows that hold with equality at the solution of min x^T P x / 2 + q^T x, P definite, with c_i x = d_i for i < equalities, else c_i x <= d_i.
//
// The dual method of Goldfarb and Idnani (A numerically stable dual method for solving strictly convex quadratic programs, 1983): from the
// minimum without rows, the row that is violated most enters, until none is violated. Before it does, rows whose multipliers reach 0 leave.
#pragma once
#include <vector>

#include "scalar.hpp"

struct ActiveSet {
    int n = 0, equalities = 0;
    std::vector<double> p, q, c, d;  // P (n, n), q, the rows c_i (rows, n), and d
    std::vector<int> active;         // the rows found
    int steps = 0;                   // rows that entered or left

    // False if P is not positive definite, the equalities are dependent, or no x is feasible. P is overwritten by its factor.
    bool solve();

  private:
    // Vectors in the metric of P = L L^T: v_i = L^-1 c_i, u = L^-1 (q + C^T y) = -L^T x. The v_i of the active rows are the columns of Q R.
    std::vector<double> v, sizes, u, y, Q, R, along, left, move;
    double left_size = 0;

    int rows() const { return int(d.size()); }
    const double* column(int i) const { return v.data() + Index(i) * n; }
    double slack(int i) const;
    int violated() const;          // the row that is violated most, or none: -1
    void project(const double* x);  // x = Q along + left
    void append(int i);             // after its projection
    void remove(int place);
    bool enter(int i);
};
