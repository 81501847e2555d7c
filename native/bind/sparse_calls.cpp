// Sparse LU, Cholesky and L D L^T, as Python asks for them: a pattern with its analysis, factors that passed every check, and unchecked LU
// factors.
#include "calls.hpp"

#include <nanobind/stl/complex.h>
#include <nanobind/stl/string.h>

#include "arrays.hpp"
#include "checked/checked_fronts.hpp"
#include "checked/checked_lu.hpp"
#include "checked/in_single.hpp"
#include "checked/factor_registry.hpp"
#include "checked/sparse_factor.hpp"
#include "columns_of.hpp"
#include "directions.hpp"
#include "factor_calls.hpp"
#include "fronts_calls.hpp"
#include "program_patterns.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

constexpr double ROOM = 1.25;  // entries of L and U that a program has room for, over those of pivots on the diagonal

constexpr const char* PLACES = "fronts, place: expected fronts that know their slots, and a number for each row";
constexpr const char* ENTRIES = "slot, entry_rows, entry_columns: expected the slot, the row and the column of each entry";

// The values that are given, of entries or of slots, and the precision of the factor.
struct FactorOptions {
    bool in_slots, in_single;
    bool operator==(const FactorOptions& other) const { return in_slots == other.in_slots && in_single == other.in_single; }
};

// Factors of the matrices of a batch, of any of the four dtypes.
struct Factor {
    struct Member {  // one matrix among several
        Factor* factor;
        uint64_t key;
        Index at;
    };

    // `keys`: one for each matrix, of which so many are `shared` with other factors
    Factor(AnyOf<SparseFactor> of, std::shared_ptr<const EntryPattern> pattern, Dtype dtype, bool is_batch, FactorOptions as, uint64_t key, const std::vector<uint64_t>& keys, Index shared)
        : of(std::move(of)), pattern(std::move(pattern)), dtype(dtype), is_batch(is_batch), as(as), key(key), shared(shared) {
        for (uint64_t own : keys) matrices.push_back({this, own, Index(matrices.size())});
        // one of those that are equal, which would all be found in one place
        std::sort(matrices.begin(), matrices.end(), [](const Member& a, const Member& b) { return a.key < b.key; });
        matrices.erase(std::unique(matrices.begin(), matrices.end(), [](const Member& a, const Member& b) { return a.key == b.key; }), matrices.end());
        registry.add(key, this);
        for (Member& own : matrices) member_registry.add(own.key, &own);
    }
    ~Factor() {
        registry.remove(key, this);
        for (Member& own : matrices) member_registry.remove(own.key, &own);
    }
    Factor(const Factor&) = delete;

    Index count() const { return std::visit([](auto& own) { return own->count; }, of); }
    Index own_factors() const { return different() - shared; }
    Index different() const { return std::visit([](auto& own) { return own->different(); }, of); }
    size_t nbytes() const { return std::visit([](auto& own) { return own->nbytes(); }, of); }
    Index reused_pivots() const { return std::visit([](auto& own) { return own->reused_pivots(); }, of); }
    // how many blocks (n, k) of right-hand sides b is, k of which each has; an error where it fits no matrix
    Index blocks(const Array& b, bool is_vector, int* k) const {
        int own = is_vector ? 1 : 2;
        Index n = pattern->columns().size();
        require(b.dtype == dtype && b.ndim() >= own && b.axis(own) == n && (is_vector || b.axis(1) < (1 << 30) / n), "b, x: expected like shapes and dtypes, those of the matrices");
        require(b.batch(own) == count() || count() == 1, "b, x: expected a block for each matrix");
        *k = is_vector ? 1 : int(b.axis(1));
        return b.batch(own);
    }

    AnyOf<SparseFactor> of;
    std::shared_ptr<const EntryPattern> pattern;
    Dtype dtype;
    bool is_batch;
    FactorOptions as;
    uint64_t key;
    Index shared;
    std::vector<Member> matrices;
    bool is_wrapped = false;  // a Python object holds it, and is counted instead
    static inline FactorRegistry<Factor> registry;
    static inline FactorRegistry<Member> member_registry;
};

struct UncheckedLu {
    AnyOf<Lu> of;
    Dtype dtype;
    std::shared_ptr<const SparsePattern> pattern;
};

bool are_factored_alike(const SparsePattern&, const SparsePattern&) { return true; }  // the order of LU is not visible outside
bool are_factored_alike(const SymmetricPattern& a, const SymmetricPattern& b) { return a.kind == b.kind && a.place == b.place; }

// A pattern with factors of its matrices: what does not depend on how they are factored.
template <class Pattern> class SparseFactors {
  public:
    // The factor of these values that is in memory, or None; and the key by which it is found.
    nb::tuple find(nb::handle values, bool in_slots, bool in_single) {
        Array a(values, false);
        const FactorOptions as = options_of(a, in_slots, in_single);
        uint64_t key = key_of(a.as<char>(), a.dtype, a.batch(1), as, a.ndim() > 1);
        Factor* found = Factor::registry.find(key, [&](const Factor& other) {
            if (!is_on_pattern(other) || other.dtype != a.dtype || !(other.as == as) || other.count() != a.batch(1) || other.is_batch != (a.ndim() > 1)) return false;
            return with_type(a.dtype, [&](auto like) { return of<decltype(like)>(other).is_of(a.as<decltype(like)>()); });
        });
        if (found) return nb::make_tuple(nb::find(found), key);
        return nb::make_tuple(a.ndim() > 1 ? nb::none() : with_type(a.dtype, [&](auto like) { return shared<decltype(like)>(a, as, key); }), key);
    }

  protected:
    void set(std::shared_ptr<Pattern> pattern) {
        pattern_ = std::move(pattern);
        auto hash = [](const std::vector<Row>& x, uint64_t kind) { return hash_bytes(x.data(), x.size() * sizeof(Row), kind); };
        key_ = hash(pattern_->rows, hash(pattern_->cols, uint64_t(pattern_->columns().size())));
    }
    // Patterns are compared by content: an analysis that is made again finds the factors of the one that was dropped.
    bool is_on_pattern(const Factor& other) const {
        if (other.pattern == pattern_) return true;
        auto* same = dynamic_cast<const Pattern*>(other.pattern.get());
        return same && same->columns().size() == pattern_->columns().size() && same->rows == pattern_->rows && same->cols == pattern_->cols && are_factored_alike(*same, *pattern_);
    }
    Index own_values(bool in_slots) const { return Index(in_slots ? pattern_->columns().rows.size() : pattern_->rows.size()); }
    // Single precision is asked for of double, which the values may not be.
    FactorOptions options_of(const Array& a, bool in_slots, bool in_single) const {
        in_slots = in_slots && !pattern_->slot.empty();
        require(are_floats(a.dtype) && a.ndim() >= 1 && a.axis(1) == own_values(in_slots) && a.items() > 0, "values: expected a number for each entry, or for each slot");
        return {in_slots, in_single && a.dtype != single_of(a.dtype)};
    }
    // The key of the values of `count` matrices, or of one that is no batch.
    uint64_t key_of(const void* values, Dtype dtype, Index count, FactorOptions as, bool is_batch) const {
        uint64_t kind = uint64_t(count) << 8 | uint64_t(dtype) << 3 | uint64_t(as.in_single) << 2 | uint64_t(as.in_slots) << 1 | uint64_t(is_batch);
        return hash_bytes(values, size_t(count * own_values(as.in_slots)) * size_of(dtype), kind ^ key_);
    }
    template <class T> static SparseFactor<T>& of(const Factor& factor) { return *std::get<std::unique_ptr<SparseFactor<T>>>(factor.of); }
    // The matrix of these values in a factor in memory, by its key; or null.
    template <class T> Factor::Member* among(const T* values, Dtype dtype, FactorOptions as, uint64_t key) const {
        return Factor::member_registry.find(key, [&](const Factor::Member& one) {
            const Factor& other = *one.factor;
            return other.pattern == pattern_ && other.dtype == dtype && other.as == as && of<T>(other).is_member(one.at, values);
        });
    }
    // The factor of one matrix, as a member of a batch that lives; or None.
    template <class T> nb::object shared(const Array& a, FactorOptions as, uint64_t key) const {
        Factor::Member* other = among(a.as<T>(), a.dtype, as, key);
        if (!other) return nb::none();
        auto one = std::make_unique<SparseFactor<T>>(of<T>(*other->factor), other->at);
        return nb::cast(new Factor(std::move(one), pattern_, a.dtype, false, as, key, {key}, 1), nb::rv_policy::take_ownership);
    }

    // The factor of values (*batch, entries), or slots, one or many matrices, that passed every check, or None. Matrices of a batch
    // whose factors live share them.
    template <class T, class Make> nb::object factored(const Array& a, FactorOptions as, char part, uint64_t key, int parts, Make make) {
        std::unique_ptr<SparseFactor<T>> made;
        std::vector<uint64_t> keys;
        const bool is_batch = a.ndim() > 1, taken = without_gil([&] {
            made = std::make_unique<SparseFactor<T>>(pattern_, a.batch(1), own_values(as.in_slots), part);
            made->take(a.as<T>());
            for (Index i = 0; i < made->different(); i++) keys.push_back(is_batch ? key_of(made->values(i), a.dtype, 1, as, false) : key);
            return true;
        });
        if (!taken) return nb::none();
        Index shared = 0;
        for (Index i = 0; is_batch && i < made->different(); i++)
            if (Factor::Member* other = among(made->values(i), a.dtype, as, keys[i])) {
                made->share(i, of<T>(*other->factor), other->at);
                shared++;
            }
        if (!without_gil([&] { return made->factor(parts, make); })) return nb::none();
        return nb::cast(new Factor(std::move(made), pattern_, a.dtype, is_batch, as, key, keys, shared), nb::rv_policy::take_ownership);
    }

    template <class T> using Work = typename CheckedMatrix<T>::Work;
    template <class T> using Made = std::unique_ptr<CheckedMatrix<T>>;
    // One matrix that is looked at, with its factor in its own precision or in single; or null.
    template <class T, template <class> class Of, class Decompose> Made<T> checked_factor(const T* values, FactorOptions as, const std::vector<int>* kept, Work<T>& work, Decompose decompose) {
        if constexpr (!std::is_same_v<T, Narrow<T>>)
            if (as.in_single) {
                auto one = std::make_unique<InSingle<T>>();
                auto low = std::make_unique<Of<Narrow<T>>>();
                low->use(*pattern_);
                return one->factor(*pattern_, values, as.in_slots, kept, work, std::move(low), decompose) ? std::move(one) : nullptr;
            }
        auto one = std::make_unique<Of<T>>();
        one->use(*pattern_);
        return one->load(values, as.in_slots, kept, work) && decompose(*one, work) ? std::move(one) : nullptr;
    }

    std::shared_ptr<Pattern> pattern_;

  private:
    uint64_t key_ = 0;  // of the pattern
};

}  // namespace

class SparseLu : public SparseFactors<SparsePattern> {
  public:
    SparseLu(nb::handle starts, nb::handle rows, nb::object slot, nb::handle entry_rows, nb::handle entry_columns) {
        Array s(starts, false), r(rows, false);
        Compressed columns = columns_of(s, r);
        const Row n = columns.size();
        require(n > 0, "starts: expected a column");
        Array i(entry_rows, false), j(entry_columns, false);
        std::vector<Row> of_rows = numbers<Row>(i, 0, n, ENTRIES), of_columns = numbers<Row>(j, 0, n, ENTRIES);
        std::vector<Index> slots;
        if (!slot.is_none()) slots = numbers<Index>(Array(slot, false), 0, r.items(), ENTRIES);
        require(of_rows.size() == of_columns.size() && of_rows.size() == (slot.is_none() ? columns.rows.size() : slots.size()), ENTRIES);
        std::shared_ptr<const Direction> probe = direction(int(n));
        {
            nb::gil_scoped_release free;
            set(std::make_shared<SparsePattern>(std::move(columns), std::move(slots), std::move(of_rows), std::move(of_columns)));
        }
        pattern_->probe = std::move(probe);
    }

    // The factor of values (*batch, entries), or slots, by the pivots of the one before where these are good enough; or None.
    nb::object factor(nb::handle values, bool in_slots, bool in_single, uint64_t key, int threads) {
        Array a(values, false);
        const FactorOptions as = options_of(a, in_slots, in_single);
        if (pattern_->lu.is_singular) return nb::none();
        threads = std::clamp(threads, 1, MOST_THREADS);
        return with_type(a.dtype, [&](auto like) -> nb::object {
            using T = decltype(like);
            std::shared_ptr<const Pivots>& last = kept_[int(as.in_single ? single_of(a.dtype) : a.dtype)];
            std::vector<std::shared_ptr<const Pivots>> kept(threads, last);
            nb::object made = factored<T>(a, as, 'L', key, threads, [&](const T* own, int part, Work<T>& work) {
                auto decompose = [&](auto& one, auto& own_work) { return one.decompose(kept[part], own_work); };
                return checked_factor<T, CheckedLu>(own, as, kept[part] ? &kept[part]->powers : nullptr, work, decompose);
            });
            if (!made.is_none()) last = kept[0];
            return made;
        });
    }

    // L, U and F of M from the values of its slots, unchecked; None if a column has no pivot.
    nb::object eliminate(nb::handle m, double threshold) {
        Array a(m, false);
        require(are_floats(a.dtype) && a.ndim() == 1 && a.items() == Index(pattern_->lu.columns.rows.size()), "m: expected a number for each slot");
        require(threshold > 0 && threshold <= 1, "threshold: expected a number up to 1");
        return with_type(a.dtype, [&](auto like) -> nb::object {
            using T = decltype(like);
            auto made = std::make_unique<Lu<T>>();
            const bool has_pivots = without_gil([&] { return made->factor(pattern_->lu, a.as<T>(), Real<T>(threshold)); });
            if (!has_pivots) return nb::none();
            return nb::cast(new UncheckedLu{std::move(made), a.dtype, pattern_}, nb::rv_policy::take_ownership);
        });
    }

    // The sizes of the arrays of a factor in a program, for one matrix; None if they are too large.
    nb::object program_sizes() const {
        double most = ROOM * pattern_->lu.entries + 16;
        Index n = pattern_->lu.n, room = Index(std::min(most, 1e9));
        if (pattern_->lu.is_singular || most > 1e9 - 8 * double(n)) return nb::none();
        return nb::make_tuple(CheckedLu<double>::whole_size(n, room), CheckedLu<double>::numbers_size(n, room), 2);
    }
    // Programs name the pattern so, and find this analysis.
    void name(const std::string& name) const { add_program_pattern(name, pattern_); }

    double work() const { return pattern_->lu.is_singular ? std::numeric_limits<double>::infinity() : pattern_->lu.operations / std::max(pattern_->lu.entries, 1.0); }
    size_t nbytes() const {
        size_t bytes = pattern_->nbytes();
        for (auto& pivots : kept_)
            if (pivots) bytes += pivots->nbytes();
        return bytes;
    }

  private:
    std::shared_ptr<const Pivots> kept_[5];
};

// Factors of (B + B^H) / 2 or (B + B^T) / 2 by fronts, by the entries of B; `kind` as in SymmetricPattern.
class SparseFronts : public SparseFactors<SymmetricPattern> {
  public:
    // `place`: of each row in the order of the fronts, which know their slots
    SparseFronts(const char* kind, nb::handle fronts, nb::handle place, nb::handle entry_rows, nb::handle entry_columns) {
        const char own_kind = one_of(kind, "CHT");
        std::shared_ptr<const Fronts> own = located_fronts(fronts);
        const Index n = own->n;
        Array p(place, false), i(entry_rows, false), j(entry_columns, false);
        std::vector<Row> places = numbers<Row>(p, 0, n, PLACES), of_rows = numbers<Row>(i, 0, n, ENTRIES), of_columns = numbers<Row>(j, 0, n, ENTRIES);
        require(n > 0 && n < INT32_MAX && Index(places.size()) == n && of_rows.size() == of_columns.size(), PLACES);
        std::shared_ptr<const Direction> probe = direction(int(n));
        {
            nb::gil_scoped_release free;
            set(std::make_shared<SymmetricPattern>(own_kind, Row(n), of_rows.data(), of_columns.data(), Index(of_rows.size()), std::move(own), std::move(places)));
        }
        pattern_->probe = std::move(probe);
    }

    nb::object factor(nb::handle values, bool in_slots, bool in_single, uint64_t key, int threads) {
        Array a(values, false);
        const FactorOptions as = options_of(a, in_slots, in_single);
        const bool is_one = a.batch(1) == 1;
        return with_type(a.dtype, [&](auto like) -> nb::object {
            using T = decltype(like);
            auto decompose = [&](auto& one, auto& work) { return one.decompose(is_one ? threads : 1, work); };
            return factored<T>(a, as, pattern_->kind, key, is_one ? 1 : threads, [&](const T* own, int, Work<T>& work) {
                return pattern_->kind == 'C' ? checked_factor<T, CheckedCholesky>(own, as, nullptr, work, decompose) : checked_factor<T, CheckedLdl>(own, as, nullptr, work, decompose);
            });
        });
    }
    size_t nbytes() const { return pattern_->nbytes(); }
};

namespace {

// Write x of op(A) x = b; true if it is accepted.
bool solve(Factor& self, nb::handle b, nb::handle x, const char* op, bool is_vector, int threads) {
    Array given(b, false), found(x, true);
    char how = one_of(op, "NTH");
    require(given.is_like(found), "b, x: expected like shapes and dtypes, those of the matrices");
    int k = 0;
    Index blocks = self.blocks(given, is_vector, &k);
    return std::visit([&](auto& own) {
        using T = typename std::decay_t<decltype(*own)>::Number;
        return without_gil([&] { return own->solve(given.as<T>(), found.as<T>(), blocks, k, how, threads); });
    }, self.of);
}

// Write the cotangents of b, and of the entries unless that is None; true if they are accepted.
bool pullback(Factor& self, nb::handle x_bar, nb::handle x, nb::handle b_bar, nb::object values_bar, const char* op, bool is_vector, int threads) {
    Array given(x_bar, false), solution(x, false), lam(b_bar, true);
    char how = one_of(op, "NT");
    require(given.is_like(solution) && given.is_like(lam), "x_bar, x, b_bar: expected like shapes and dtypes, those of the matrices");
    int k = 0;
    Index blocks = self.blocks(given, is_vector, &k), entries = Index(self.pattern->rows.size());
    std::unique_ptr<Array> matrix(values_bar.is_none() ? nullptr : new Array(values_bar, true));
    require(!matrix || !self.as.in_slots, "values_bar: expected None for values of slots");
    require(!matrix || (matrix->dtype == self.dtype && matrix->ndim() >= 1 && matrix->axis(1) == entries && matrix->batch(1) == blocks),
            "values_bar: expected the numbers of each matrix");
    require(how == 'N' || self.dtype == Dtype::f4 || self.dtype == Dtype::f8, "op: expected N for complex numbers");
    return std::visit([&](auto& own) {
        using T = typename std::decay_t<decltype(*own)>::Number;
        return without_gil([&] {
            return own->pullback(given.as<T>(), solution.as<T>(), lam.as<T>(), matrix ? matrix->as<T>() : nullptr, blocks, k, how, threads);
        });
    }, self.of);
}

// x = op(M)^-1 b, unchecked.
void solve_raw(UncheckedLu& self, nb::handle b, nb::handle x, const char* op) {
    Array given(b, false), found(x, true);
    char how = one_of(op, "NTH");
    const LuAnalysis& a = self.pattern->lu;
    require(given.is_like(found) && given.dtype == self.dtype && given.ndim() == 2 && given.axis(2) == a.n, "b, x: expected like shapes and dtypes, those of M");
    Index k = given.axis(1);
    std::visit([&](auto& own) {
        using T = typename std::decay_t<decltype(own->d)>::value_type;
        bool done = without_gil([&] {
            std::vector<T> room(2 * size_t(a.n));
            for (Index c = 0; c < k; c++) own->parts().template apply<1>(a, given.as<T>() + c, found.as<T>() + c, k, room.data(), how, false);
            return true;
        });
        if (!done) throw std::bad_alloc();
    }, self.of);
}

// (det M / |det M|, log |det M|).
nb::tuple slogdet_raw(UncheckedLu& self) {
    return std::visit([&](auto& own) {
        const auto product = own->parts().det(self.pattern->lu);
        return nb::make_tuple(std::complex<double>(product.sign()), product.log());
    }, self.of);
}

size_t bytes_raw(UncheckedLu& self) {
    return std::visit([](auto& own) { return own->nbytes() + own->pivots->nbytes(); }, self.of);
}

// L of one matrix, shared with this factor, as an object of Cholesky's calls; and the powers of two by which its rows and
// columns are scaled, in the order of A, none where they are not.
nb::tuple cholesky_of(Factor& self) {
    return std::visit([&](auto& own) {
        using T = typename std::decay_t<decltype(*own)>::Number;
        auto* one = own->count == 1 ? dynamic_cast<const CheckedCholesky<T>*>(&own->first()) : nullptr;
        require(one, "expected a Cholesky factor of one matrix");
        nb::list scales;
        for (int power : one->scales()) scales.append(power);
        return nb::make_tuple(cholesky_calls(one->made(), self.dtype), scales);
    }, self.of);
}

// The signs of the eigenvalues of one matrix, from an accurate L D L^H; or None.
nb::object signs_of(Factor& self) {
    return std::visit([&](auto& own) -> nb::object {
        using T = typename std::decay_t<decltype(*own)>::Number;
        auto* one = own->count == 1 ? dynamic_cast<const CheckedLdl<T>*>(&own->first()) : nullptr;
        Signs found;
        if (!one || !one->signs(found)) return nb::none();
        return nb::make_tuple(found.positive, found.negative);
    }, self.of);
}

}  // namespace

void bind_sparse(nb::module_& m) {
    nb::class_<SparseLu>(m, "SparseLu")
        .def(nb::init<nb::handle, nb::handle, nb::object, nb::handle, nb::handle>(), "starts"_a, "rows"_a, "slot"_a.none(), "entry_rows"_a, "entry_columns"_a)
        .def("find", &SparseLu::find, "values"_a, "in_slots"_a, "in_single"_a)
        .def("factor", &SparseLu::factor, "values"_a, "in_slots"_a, "in_single"_a, "value_hash"_a, "threads"_a)
        .def("eliminate", &SparseLu::eliminate, "m"_a, "threshold"_a)
        .def("program_sizes", &SparseLu::program_sizes)
        .def("name", &SparseLu::name, "name"_a)
        .def_prop_ro("work", &SparseLu::work)
        .def_prop_ro("heap_bytes", &SparseLu::nbytes);
    nb::class_<SparseFronts>(m, "SparseFronts")
        .def(nb::init<const char*, nb::handle, nb::handle, nb::handle, nb::handle>(), "kind"_a, "fronts"_a, "place"_a, "entry_rows"_a, "entry_columns"_a)
        .def("find", &SparseFronts::find, "values"_a, "in_slots"_a, "in_single"_a)
        .def("factor", &SparseFronts::factor, "values"_a, "in_slots"_a, "in_single"_a, "value_hash"_a, "threads"_a)
        .def_prop_ro("heap_bytes", &SparseFronts::nbytes);
    nb::class_<Factor>(m, "SparseFactor")
        .def("solve", &solve, "b"_a, "x"_a, "op"_a, "is_vector"_a, "threads"_a)
        .def("pullback", &pullback, "x_bar"_a, "x"_a, "b_bar"_a, "values_bar"_a.none(), "op"_a, "is_vector"_a, "threads"_a)
        .def("slogdet", &slogdet_of<Factor>, "sign"_a, "size"_a)
        .def("cholesky", &cholesky_of)
        .def("signs", &signs_of)
        .def_rw("is_wrapped", &Factor::is_wrapped)
        .def_ro("value_hash", &Factor::key)
        .def_prop_ro("count", &Factor::count)
        .def_prop_ro("different", &Factor::different)
        .def_ro("shared", &Factor::shared)
        .def_prop_ro("reused_pivots", &Factor::reused_pivots)
        .def_prop_ro("nbytes", &Factor::nbytes);
    nb::class_<UncheckedLu>(m, "UncheckedLu")
        .def("solve", &solve_raw, "b"_a, "x"_a, "op"_a)
        .def("slogdet", &slogdet_raw)
        .def_prop_ro("nbytes", &bytes_raw);
    m.def("live_sparse_factors", &count_live_factors<Factor>);
}
