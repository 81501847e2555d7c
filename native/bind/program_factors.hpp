// The kinds of factors in a program's call: their patterns, the room of their arrays, and how a factor is made.
#pragma once
#include "checked/checked_fronts.hpp"
#include "checked/checked_lu.hpp"
#include "program_patterns.hpp"

template <class T> constexpr int dtype_number() { return 2 * Scalar<T>::is_complex + (sizeof(Real<T>) == 8); }

// Pivots of the last factor serve the next one.
template <class T> struct ProgramLu {
    using Number = T;
    using Pattern = SparsePattern;
    using Checked = CheckedLu<T>;
    static constexpr bool has_order = false;

    static std::shared_ptr<Pattern> pattern(char, Row n, const int* places, Index count, const int*) { return std::make_shared<Pattern>(n, places, places + count, count); }
    static bool is_of_kind(const Pattern&, char) { return true; }
    static bool fits(const Pattern& p, Index whole, Index numbers) { return numbers >= p.lu.n && whole == Checked::whole_size(p.lu.n, numbers - p.lu.n); }
    static double operations(const Pattern& p) { return p.lu.operations; }
    static double entries(const Pattern& p) { return p.lu.entries; }

    static bool factor(Checked& into, const Pattern& p, const T* values, ProgramPattern& named, int, typename Checked::Work& work, T*) {
        if (p.lu.is_singular) return false;
        std::shared_ptr<const Pivots> before = named.kept(dtype_number<T>()), kept = before;
        into.use(p);
        const bool accepted = into.load(values, false, kept ? &kept->powers : nullptr, work) && into.decompose(kept, work);
        if (kept != before) named.keep(dtype_number<T>(), kept);
        return accepted;
    }
    // Whether there was room.
    static bool write(const Checked& from, const Pattern& p, Index numbers, int* to, T* values, Real<T>* real) { return from.write(numbers - p.lu.n, to, values, real); }
};

// The order of elimination is an argument.
template <class T, template <class> class F> struct ProgramFronts {
    using Number = T;
    using Pattern = SymmetricPattern;
    using Checked = CheckedFronts<T, F>;
    static constexpr bool has_order = true;

    static std::shared_ptr<Pattern> pattern(char kind, Row n, const int* places, Index count, const int* order) { return std::make_shared<Pattern>(kind, n, places, places + count, count, order); }
    static bool is_of_kind(const Pattern& p, char kind) { return p.kind == kind; }
    static bool fits(const Pattern& p, Index whole, Index numbers) { return numbers == Checked::numbers_size(p) && whole == Checked::whole_size(p); }
    static double operations(const Pattern& p) {
        double total = 0;
        for (Index s = 0; s < p.fronts->count(); s++) total += p.fronts->work(s);
        return total;
    }
    static double entries(const Pattern& p) { return double(p.fronts->entries()); }

    static bool factor(Checked& into, const Pattern& p, const T* values, ProgramPattern&, int threads, typename Checked::Work& work, T* numbers) {
        into.use(p, numbers);
        return into.load(values, false, nullptr, work) && into.decompose(threads, work);
    }
    static bool write(const Checked& from, const Pattern&, Index, int* to, T*, Real<T>* real) { return from.write(to, real); }
};
