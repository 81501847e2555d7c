// The interface of cuDSS 1.0 on the memory of the host, by dense factors: for tests. Arguments are checked,
// objects are counted, and it fails when it is told to. Numbers of enumerations are written here on their
// own. As in the library, pivots stay where they are unless entries are matched, and small ones are raised.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace {

using Number = std::complex<double>;
using Dense = std::vector<Number>;

enum Status { kFine, kNotInitialized, kNoMemory, kInvalid, kUnsupported, kFailed };
enum Kind { kGeneral, kSymmetric, kHermitian, kSpd, kHpd };
enum Mode { kNormal, kTranspose, kConjugateTranspose };
enum What { kInfo = 0, kPivots = 2, kInertia = 3, kDiagonal = 8, kMemory = 13 };
enum Setting { kMatching = 3, kSolveMode = 4, kPivoting = 7, kBatchSize = 18 };
constexpr int kAnalysis = 1 | 2, kFactorization = 4, kRefactorization = 8, kSolve = 0x3f0;

struct Handle { void* stream = nullptr; int data = 0; };
struct Config { int matching = 6, mode = 0, pivoting = 0, batch = 1; };
struct Matrix {
  bool dense = false;
  int64_t rows = 0, cols = 0, many = 0;  // entries, or the leading dimension
  const char *starts = nullptr, *columns = nullptr;
  const char* values = nullptr;
  int offset_type = 0, index_type = 0, type = 0, kind = 0, view = 0;
};
struct Factor { Dense lu; std::vector<int64_t> order; int info = 0, raised = 0, positive = 0, negative = 0; };
struct Data {
  Handle* handle = nullptr;
  int stage = 0, batch = 0, index_type = 0, type = 0, kind = 0;
  int64_t n = 0, block = 1;  // rows among which pivots are chosen
  std::vector<int64_t> starts, columns;
  std::vector<Factor> factors;
};

std::mutex guard;
std::map<int, std::set<const void*>> alive;  // 0 handles, 1 settings, 2 data, 3 matrices
std::string misuse;
std::map<int, int> to_fail, executed;
void* last_stream = nullptr;
int version = 1;

int wrong(const std::string& what, int status = kInvalid) {
  if (misuse.empty()) misuse = what;
  return status;
}
bool lives(int what, const void* x) { return x != nullptr && alive[what].count(x) != 0; }
bool is_complex(int type) { return type == 4 || type == 5; }
size_t bytes(int type) { return type == 0 ? 4 : type == 5 ? 16 : type == 10 ? 4 : 8; }

int64_t integer(const char* x, int type, int64_t i) {
  if (type == 10) return reinterpret_cast<const int32_t*>(x)[i];
  return reinterpret_cast<const int64_t*>(x)[i];
}
Number number(const char* x, int type, int64_t i) {
  switch (type) {
    case 0: return reinterpret_cast<const float*>(x)[i];
    case 1: return reinterpret_cast<const double*>(x)[i];
    case 4: return Number(reinterpret_cast<const std::complex<float>*>(x)[i]);
    default: return reinterpret_cast<const Number*>(x)[i];
  }
}
void put(char* x, int type, int64_t i, Number value) {
  switch (type) {
    case 0: reinterpret_cast<float*>(x)[i] = float(value.real()); break;
    case 1: reinterpret_cast<double*>(x)[i] = value.real(); break;
    case 4: reinterpret_cast<std::complex<float>*>(x)[i] = std::complex<float>(value); break;
    default: reinterpret_cast<Number*>(x)[i] = value;
  }
}

Dense expanded(const Data& d, const Matrix& m, int64_t member) {
  Dense a(d.n * d.n);
  for (int64_t i = 0; i < d.n; ++i)
    for (int64_t e = d.starts[i]; e < d.starts[i + 1]; ++e) {
      const int64_t j = d.columns[e];
      const Number v = number(m.values, m.type, member * m.many + e);
      a[i * d.n + j] += v;
      if (d.kind != kGeneral && i != j)
        a[j * d.n + i] += d.kind == kHermitian || d.kind == kHpd ? std::conj(v) : v;
    }
  return a;
}

Factor factored(Dense a, int64_t n, int kind, double least, int64_t block) {
  Factor f;
  f.order.resize(n);
  for (int64_t i = 0; i < n; ++i) f.order[i] = i;
  for (int64_t k = 0; k < n; ++k) {
    if (block > 1) {
      int64_t best = k;
      for (int64_t i = k; i < std::min(n, k - k % block + block); ++i)
        if (std::abs(a[i * n + k]) > std::abs(a[best * n + k])) best = i;
      std::swap(f.order[k], f.order[best]);
      for (int64_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[best * n + j]);
    }
    Number& pivot = a[k * n + k];
    if (kind >= kSpd) {
      if (!(pivot.real() > 0) && f.info == 0) f.info = int(k) + 1;
      if (f.info) pivot = NAN;
    } else if (std::abs(pivot) < least) {
      pivot = pivot.real() < 0 ? -least : least;
      ++f.raised;
    }
    ++(pivot.real() > 0 ? f.positive : f.negative);
    for (int64_t i = k + 1; i < n; ++i) {
      const Number l = a[i * n + k] /= pivot;
      if (l != 0.0)
        for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= l * a[k * n + j];
    }
  }
  f.lu = std::move(a);
  return f;
}

std::vector<Number> solved(const Factor& f, int64_t n, std::vector<Number> b, int mode) {
  std::vector<Number> x(n);
  if (mode == kConjugateTranspose)
    for (auto& v : b) v = std::conj(v);
  if (mode == kNormal) {
    for (int64_t i = 0; i < n; ++i) {
      x[i] = b[f.order[i]];
      for (int64_t j = 0; j < i; ++j) x[i] -= f.lu[i * n + j] * x[j];
    }
    for (int64_t i = n; i-- > 0;) {
      for (int64_t j = i + 1; j < n; ++j) x[i] -= f.lu[i * n + j] * x[j];
      x[i] /= f.lu[i * n + i];
    }
    return x;
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) b[i] -= f.lu[j * n + i] * b[j];
    b[i] /= f.lu[i * n + i];
  }
  for (int64_t i = n; i-- > 0;)
    for (int64_t j = i + 1; j < n; ++j) b[i] -= f.lu[j * n + i] * b[j];
  for (int64_t i = 0; i < n; ++i) x[f.order[i]] = mode == kConjugateTranspose ? std::conj(b[i]) : b[i];
  return x;
}

int read_pattern(const Matrix& a, std::vector<int64_t>& starts, std::vector<int64_t>& columns) {
  for (int64_t i = 0; i <= a.rows; ++i) starts.push_back(integer(a.starts, a.offset_type, i));
  if (starts.front() != 0 || starts.back() != a.many) return wrong("offsets do not end at the entries");
  for (int64_t i = 0; i < a.rows; ++i) {
    if (starts[i] > starts[i + 1]) return wrong("offsets fall");
    for (int64_t e = starts[i]; e < starts[i + 1]; ++e) {
      columns.push_back(integer(a.columns, a.index_type, e));
      if (columns.back() < 0 || columns.back() >= a.rows) return wrong("a column outside");
      if (e > starts[i] && columns[e] <= columns[e - 1]) return wrong("columns out of order");
      if (a.kind != kGeneral && columns.back() < i) return wrong("an entry below the diagonal");
    }
  }
  return kFine;
}

int check_dense(const Matrix* m, const Matrix& a) {
  if (!lives(3, m) || !m->dense) return wrong("no dense matrix");
  if (m->rows != a.rows || m->type != a.type) return wrong("a dense matrix that does not fit");
  return kFine;
}

int execute(Handle* h, int phase, const Config* c, Data* d, const Matrix* a, Matrix* x, const Matrix* b) {
  if (!lives(0, h) || !lives(1, c) || !lives(2, d)) return wrong("dead objects in execute");
  if (d->handle != h) return wrong("data of another handle");
  if (!lives(3, a) || a->dense) return wrong("no sparse matrix");
  if (int s = check_dense(x, *a)) return s;
  if (int s = check_dense(b, *a)) return s;
  if (x->values == b->values || x->cols != b->cols) return wrong("solution and right-hand side do not fit");
  last_stream = h->stream;
  ++executed[phase];
  if (auto plan = to_fail.find(phase); plan != to_fail.end()) {
    const int status = plan->second;
    to_fail.erase(plan);
    return status;
  }
  std::vector<int64_t> starts, columns;
  if (int s = read_pattern(*a, starts, columns)) return s;
  if (phase == kAnalysis) {
    if (c->batch > 1 && c->matching > 0 && c->matching < 6) return kUnsupported;
    d->n = a->rows, d->kind = a->kind, d->type = a->type, d->index_type = a->index_type;
    d->batch = c->batch;
    const bool is_matched = c->matching > 0 && c->batch == 1;
    d->block = is_matched ? d->n : c->pivoting == 1 || d->kind != kGeneral ? 1 : 3;
    d->starts = starts, d->columns = columns, d->stage = 1;
    return kFine;
  }
  if (d->stage < 1 || d->batch != c->batch) return wrong("not analysed");
  if (starts != d->starts || columns != d->columns || a->kind != d->kind || a->type != d->type)
    return wrong("another pattern than the one that was analysed");
  if (phase == kFactorization || phase == kRefactorization) {
    if (phase == kRefactorization && d->stage < 2) return wrong("refactorization of nothing");
    d->factors.clear();
    const double least = a->type == 0 || a->type == 4 ? 1e-5 : 1e-13;
    for (int i = 0; i < d->batch; ++i)
      d->factors.push_back(factored(expanded(*d, *a, i), d->n, d->kind, least, d->block));
    d->stage = 2;
    return kFine;
  }
  if (phase != kSolve) return wrong("an unknown phase");
  if (d->stage < 2) return wrong("a solve without factors");
  const bool hermitian = d->kind == kHermitian || d->kind == kHpd;
  if (c->mode == kTranspose && hermitian) return kUnsupported;
  if (c->mode == kConjugateTranspose && (!is_complex(d->type) || !(hermitian || d->kind == kGeneral)))
    return kUnsupported;
  const int mode = d->kind == kGeneral ? c->mode : kNormal;
  for (int64_t i = 0; i < d->batch; ++i)
    for (int64_t q = 0; q < b->cols; ++q) {
      std::vector<Number> given(d->n);
      const int64_t at = i * b->many * b->cols + q * b->many;
      for (int64_t r = 0; r < d->n; ++r) given[r] = number(b->values, b->type, at + r);
      const auto found = solved(d->factors[i], d->n, given, mode);
      for (int64_t r = 0; r < d->n; ++r) put(const_cast<char*>(x->values), x->type, at + r, found[r]);
    }
  return kFine;
}

template <class T>
int made(int what, T** to, T value = {}) {
  if (!to || *to) return wrong("an object that is made twice, or nowhere");
  *to = new T(value);
  alive[what].insert(*to);
  return kFine;
}
template <class T>
int destroyed(int what, T* x) {
  if (!lives(what, x)) return wrong("what is destroyed was not alive");
  alive[what].erase(x);
  delete x;
  return kFine;
}

}  // namespace

extern "C" {

int fake_alive(int what) { return int(alive[what].size()); }
const char* fake_misuse() { return misuse.c_str(); }
void fake_fail(int phase, int status) { to_fail[phase] = status; }
int fake_executed(int phase) { return executed[phase]; }
void* fake_stream() { return last_stream; }
void fake_version(int major) { version = major; }
void fake_reset() { misuse.clear(), to_fail.clear(), executed.clear(); }

int cudssGetProperty(int which, int* value) {
  if (which < 0 || which > 2 || !value) return wrong("no property");
  *value = which == 0 ? version : 0;
  return kFine;
}
int cudssCreate(Handle** h) { std::lock_guard<std::mutex> _(guard); return made(0, h); }
int cudssDestroy(Handle* h) {
  std::lock_guard<std::mutex> _(guard);
  if (lives(0, h) && h->data) wrong("a handle is destroyed before its data");
  return destroyed(0, h);
}
int cudssSetStream(Handle* h, void* stream) {
  std::lock_guard<std::mutex> _(guard);
  if (!lives(0, h)) return wrong("a stream for a dead handle");
  h->stream = stream;
  return kFine;
}
int cudssConfigCreate(Config** c) { std::lock_guard<std::mutex> _(guard); return made(1, c); }
int cudssConfigDestroy(Config* c) { std::lock_guard<std::mutex> _(guard); return destroyed(1, c); }
int cudssConfigSet(Config* c, int which, const int* value, size_t size) {
  std::lock_guard<std::mutex> _(guard);
  if (!lives(1, c) || !value || size != sizeof(int)) return wrong("a setting of no size, or of the dead");
  switch (which) {
    case kMatching: c->matching = *value; return *value >= 0 && *value <= 6 ? kFine : wrong("matching");
    case kSolveMode: c->mode = *value; return *value >= 0 && *value <= 2 ? kFine : wrong("mode");
    case kPivoting: c->pivoting = *value; return *value >= 0 && *value <= 6 ? kFine : wrong("pivoting");
    case kBatchSize: c->batch = *value; return *value >= 1 ? kFine : wrong("batch");
    default: return wrong("an unknown setting");
  }
}
int cudssDataCreate(Handle* h, Data** d) {
  std::lock_guard<std::mutex> _(guard);
  if (!lives(0, h)) return wrong("data of a dead handle");
  Data data;
  data.handle = h;
  ++h->data;
  return made(2, d, data);
}
int cudssDataDestroy(Handle* h, Data* d) {
  std::lock_guard<std::mutex> _(guard);
  if (!lives(0, h) || !lives(2, d) || d->handle != h) return wrong("data of another handle is destroyed");
  --h->data;
  return destroyed(2, d);
}
int cudssDataGet(Handle* h, Data* d, int which, void* value, size_t size, size_t* written) {
  std::lock_guard<std::mutex> _(guard);
  if (!lives(0, h) || !lives(2, d) || d->handle != h || !written) return wrong("data of the dead");
  if (d->stage < 1) return kNotInitialized;
  if (d->stage < 2 && which != kMemory && which != kInfo) return wrong("there are no factors yet");
  const size_t index = bytes(d->index_type), own = bytes(d->type);
  std::vector<int64_t> integers;
  const Factor none, &f = d->factors.empty() ? none : d->factors.front();
  size_t wide = index;
  switch (which) {
    case kInfo:
      wide = 4, integers = {0};
      for (const auto& each : d->factors) if (each.info) integers = {each.info};
      break;
    case kPivots:
      if (d->kind >= kSpd) return wrong("no raised pivots of this kind");
      integers = {0};
      for (const auto& each : d->factors) integers[0] += each.raised;
      break;
    case kInertia:
      if (d->kind != kSymmetric && d->kind != kHermitian) return wrong("no inertia of this kind");
      integers = {f.positive, f.negative};
      break;
    case kMemory:
      wide = 8, integers.assign(16, 0);
      integers[0] = d->batch * d->n * d->n * int64_t(own), integers[1] = 3 * integers[0] + (int64_t(1) << 21);
      break;
    case kDiagonal:
      if (d->batch > 1) return kUnsupported;
      *written = d->n * own;
      if (!size) return kFine;
      if (!value || size != *written) return wrong("no room for the diagonal");
      for (int64_t i = 0; i < d->n; ++i) put(static_cast<char*>(value), d->type, i, f.lu[i * d->n + i]);
      return kFine;
    default: return wrong("unknown data");
  }
  *written = wide * integers.size();
  if (!size) return kFine;
  if (!value || size != *written) return wrong("no room for data");
  for (size_t i = 0; i < integers.size(); ++i)
    if (wide == 4) static_cast<int32_t*>(value)[i] = int32_t(integers[i]);
    else static_cast<int64_t*>(value)[i] = integers[i];
  return kFine;
}
int cudssExecute(Handle* h, int phase, const Config* c, Data* d, const Matrix* a, Matrix* x, const Matrix* b) {
  std::lock_guard<std::mutex> _(guard);
  return execute(h, phase, c, d, a, x, b);
}
int cudssMatrixCreateDn(Matrix** m, int64_t rows, int64_t cols, int64_t leading, const void* values, int type,
                        int layout) {
  std::lock_guard<std::mutex> _(guard);
  if (rows < 1 || cols < 1 || leading < rows || !values) return wrong("sizes of a dense matrix");
  if (layout != 0 || (type != 0 && type != 1 && !is_complex(type))) return wrong("type of a dense matrix");
  Matrix made_;
  made_.dense = true, made_.rows = rows, made_.cols = cols, made_.many = leading, made_.type = type;
  made_.values = static_cast<const char*>(values);
  return made(3, m, made_);
}
int cudssMatrixCreateCsr(Matrix** m, int64_t rows, int64_t cols, int64_t entries, const void* starts,
                         const void* ends, const void* columns, const void* values, int offset_type,
                         int index_type, int type, int kind, int view, int base) {
  std::lock_guard<std::mutex> _(guard);
  if (rows < 1 || rows != cols || entries < 0 || !starts || ends) return wrong("sizes of a sparse matrix");
  if (entries && (!columns || !values)) return wrong("no arrays");
  if ((offset_type != 10 && offset_type != 24) || (index_type != 10 && index_type != 24) || base != 0)
    return wrong("types of indices");
  if (type != 0 && type != 1 && !is_complex(type)) return wrong("type of values");
  if (kind < kGeneral || kind > kHpd || view != (kind == kGeneral ? 0 : 2)) return wrong("kind of a matrix");
  if ((kind == kHermitian || kind == kHpd) && !is_complex(type)) return wrong("a real Hermitian matrix");
  if (kind == kSpd && is_complex(type)) return wrong("a complex matrix that is SPD");
  Matrix made_;
  made_.rows = rows, made_.cols = cols, made_.many = entries;
  made_.starts = static_cast<const char*>(starts), made_.columns = static_cast<const char*>(columns);
  made_.values = static_cast<const char*>(values);
  made_.offset_type = offset_type, made_.index_type = index_type, made_.type = type;
  made_.kind = kind, made_.view = view;
  return made(3, m, made_);
}
int cudssMatrixSetValues(Matrix* m, const void* values) {
  std::lock_guard<std::mutex> _(guard);
  if (!lives(3, m) || !values) return wrong("values of a dead matrix");
  m->values = static_cast<const char*>(values);
  return kFine;
}
int cudssMatrixDestroy(Matrix* m) { std::lock_guard<std::mutex> _(guard); return destroyed(3, m); }

}  // extern "C"
