#include "active_set.hpp"

#include <limits>

#include "blas.hpp"
#include "scalar.hpp"

constexpr double NONE = std::numeric_limits<double>::infinity();
constexpr int STEPS = 4;  // for each row and unknown: far more than programs take that do not cycle

static double dot(const double* x, const double* y, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

static void add(double t, const double* x, double* y, int n) {
    for (int i = 0; i < n; i++) y[i] += t * x[i];
}

static double norm(const double* x, int n) { return std::sqrt(dot(x, x, n)); }

// x = L^-1 x for the rows of L.
static void forward(const double* l, double* x, int n) {
    for (int i = 0; i < n; i++) x[i] = (x[i] - dot(l + Index(i) * n, x, i)) / l[Index(i) * n + i];
}

double ActiveSet::slack(int i) const { return d[i] + dot(column(i), u.data(), n); }

int ActiveSet::violated() const {
    int most = -1;
    double worst = 0;
    const double size_of_u = norm(u.data(), n);
    std::vector<bool> holds(rows());
    for (int i : active) holds[i] = true;
    for (int i = 0; i < rows(); i++) {
        if (holds[i]) continue;
        if (i < equalities) return i;
        const double left = slack(i);
        if (left < -n * eps<double> * (std::fabs(d[i]) + sizes[i] * size_of_u) && left < worst * sizes[i]) most = i, worst = sizes[i] > 0 ? left / sizes[i] : -NONE;
    }
    return most;
}

void ActiveSet::project(const double* x) {
    const int count = int(active.size());
    along.assign(count, 0);
    left.assign(x, x + n);
    for (int pass = 0; pass < 2; pass++)  // twice is enough for orthogonality to rounding
        for (int j = 0; j < count; j++) {
            const double part = dot(Q.data() + Index(j) * n, left.data(), n);
            add(-part, Q.data() + Index(j) * n, left.data(), n);
            along[j] += part;
        }
    left_size = norm(left.data(), n);
}

void ActiveSet::append(int i) {
    const Index count = Index(active.size());
    for (Index j = 0; j < count; j++) R[j * n + count] = along[j];
    R[count * n + count] = left_size;
    for (int j = 0; j < n; j++) Q[count * n + j] = left[j] / left_size;
    active.push_back(i);
}

// The columns after it are projected again: n f^2 multiplications for f of them.
void ActiveSet::remove(int place) {
    std::vector<int> others(active.begin() + place + 1, active.end());
    active.resize(place);
    y.erase(y.begin() + place);
    for (int i : others) project(column(i)), append(i);
}

bool ActiveSet::enter(int i) {
    double own = 0;
    for (; steps < STEPS * (rows() + n); steps++) {
        project(column(i));
        move = along;  // R move = along: the multipliers of the others fall by this much while its own rises by 1
        for (int j = int(move.size()) - 1; j >= 0; j--) {
            for (Index k = j + 1; k < Index(move.size()); k++) move[j] -= R[Index(j) * n + k] * move[k];
            move[j] /= R[Index(j) * n + j];
        }
        const bool is_free = left_size > n * eps<double> * sizes[i];
        // slack + far |left|^2 = 0, unless a multiplier y - far move reaches 0 before
        double far = is_free ? -slack(i) / (left_size * left_size) : NONE;
        int leaves = -1;
        for (Index j = 0; i >= equalities && j < Index(move.size()); j++)
            if (active[j] >= equalities && move[j] > 0 && y[j] < far * move[j]) far = y[j] / move[j], leaves = int(j);
        if (!std::isfinite(far)) return false;
        if (is_free) add(far, left.data(), u.data(), n);
        add(-far, move.data(), y.data(), int(move.size()));
        own += far;
        if (leaves < 0) return steps++, append(i), y.push_back(own), true;
        remove(leaves);
    }
    return false;
}

bool ActiveSet::solve() {
    if (!Kernels<double>::cholesky_by_rows(n, p.data())) return false;
    v = c, u = q;
    forward(p.data(), u.data(), n);
    sizes.resize(rows());
    for (int i = 0; i < rows(); i++) {
        forward(p.data(), v.data() + Index(i) * n, n);
        sizes[i] = norm(column(i), n);
    }
    active.clear(), y.clear();
    Q.resize(Index(n) * n), R.resize(Index(n) * n);
    for (steps = 0;;)
        if (const int i = violated(); i < 0) return true;
        else if (!enter(i)) return false;
}
