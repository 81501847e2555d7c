// What a program's call does with factors of one kind: patterns, the room that their arrays have, and factors by them.
#pragma once
#include "checked/checked_cholesky.hpp"
#include "checked/checked_lu.hpp"
#include "program_patterns.hpp"

// Is a factor in its arrays, or beside them; was it never accepted, or let go?
enum class Found { here, declined, lost };

template <class T> constexpr int dtype_number() { return 2 * Scalar<T>::is_complex + (sizeof(Real<T>) == 8); }

// Pivots of the last factor serve the next one.
template <class T> struct ProgramLu {
    using Number = T;
    using Pattern = SparsePattern;
    using Checked = CheckedLu<T>;
    static constexpr bool has_order = false;

    static std::shared_ptr<Pattern> pattern(Row n, const int* places, Index count, const int*) { return std::make_shared<Pattern>(n, places, places + count, count); }
    static bool fits(const Pattern& p, Index whole, Index numbers) { return numbers >= p.lu.n && whole == Checked::whole_size(p.lu.n, numbers - p.lu.n); }
    static double operations(const Pattern& p) { return p.lu.operations; }
    static double entries(const Pattern& p) { return p.lu.entries; }

    static bool factor(Checked& into, const Pattern& p, const T* values, const ProgramPattern& named, int, typename Checked::Work& work, T*) {
        if (p.lu.is_singular) return false;
        std::shared_ptr<const Pivots> before = named.kept(dtype_number<T>()), kept = before;
        bool accepted = into.factor(p, values, false, kept, work);
        if (kept != before) const_cast<ProgramPattern&>(named).keep(dtype_number<T>(), kept);
        return accepted;
    }
    static void write(const Checked& from, const Pattern& p, const ProgramPattern& named, Index numbers, int* to, T* values, Real<T>* real) {
        if (from.write(numbers - p.lu.n, to, values, real)) return;
        auto kept = std::make_shared<const Checked>(from);
        const uint64_t number = const_cast<ProgramPattern&>(named).hold(dtype_number<T>(), kept, kept->nbytes());
        Checked::write_elsewhere(p.lu.n, numbers - p.lu.n, number, to, values, real);
    }
    // Into a factor of the reader's, unless it is `held` elsewhere.
    static Found read(Checked& into, std::shared_ptr<const Checked>& held, const Pattern& p, const ProgramPattern& named, const T* given, const int* from, const T* values, const Real<T>* real, typename Checked::Work& work) {
        held = nullptr;
        if (into.read(p, given, from, values, real, work)) return Found::here;
        const uint64_t number = Checked::elsewhere(from);
        if (!number) return Found::declined;
        held = std::static_pointer_cast<const Checked>(const_cast<ProgramPattern&>(named).held(dtype_number<T>(), number));
        return held ? Found::here : Found::lost;
    }
    static void write_nothing(const Pattern& p, Index numbers, int* to, T* values, Real<T>* real) { Checked::write_nothing(p.lu.n, numbers - p.lu.n, to, values, real); }
    static bool inverse_entries(const Checked& own, T* entries, int, typename Checked::Work& work) { return own.inverse_entries(entries, work); }
    static bool is_interrupted(const Checked&) { return false; }
};

// The order of elimination is an argument.
template <class T> struct ProgramCholesky {
    using Number = T;
    using Pattern = SymmetricPattern;
    using Checked = CheckedCholesky<T>;
    static constexpr bool has_order = true;

    static std::shared_ptr<Pattern> pattern(Row n, const int* places, Index count, const int* order) { return std::make_shared<Pattern>(n, places, places + count, count, order); }
    static bool fits(const Pattern& p, Index whole, Index numbers) { return numbers == Checked::numbers_size(p) && whole == Checked::whole_size(p); }
    static double operations(const Pattern& p) {
        double total = 0;
        for (Index s = 0; s < p.fronts->count(); s++) total += p.fronts->work(s);
        return total;
    }
    static double entries(const Pattern& p) { return double(p.fronts->entries()); }

    static bool factor(Checked& into, const Pattern& p, const T* values, const ProgramPattern&, int threads, typename Checked::Work& work, T* numbers) {
        return into.factor(p, values, false, threads, work, numbers);
    }
    static void write(const Checked& from, const Pattern&, const ProgramPattern&, Index, int* to, T*, Real<T>* real) { from.write(to, real); }
    static Found read(Checked& into, std::shared_ptr<const Checked>&, const Pattern& p, const ProgramPattern&, const T* given, const int* from, const T* values, const Real<T>* real, typename Checked::Work& work) {
        return into.read(p, given, from, values, real, work) ? Found::here : Found::declined;
    }
    static void write_nothing(const Pattern& p, Index, int* to, T* values, Real<T>* real) { Checked::write_nothing(p, to, values, real); }
    static bool inverse_entries(const Checked& own, T* entries, int threads, typename Checked::Work& work) { return own.inverse_entries(entries, threads, work); }
    static bool is_interrupted(const Checked& own) { return own.is_interrupted; }
};
