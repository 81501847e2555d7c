// What a program's call does with factors of one kind: patterns, the room that their arrays have, and factors by them.
#pragma once
#include "checked/checked_fronts.hpp"
#include "checked/checked_lu.hpp"
#include "program_patterns.hpp"

// Is a factor in its arrays, or beside them; was it never accepted, or let go?
enum class Found { here, declined, lost };

template <class T> constexpr int dtype_number() { return 2 * Scalar<T>::is_complex + (sizeof(Real<T>) == 8); }

// A factor that has no room in its arrays: it is held beside them, and found again.
template <class Checked> void hold(Checked from, ProgramPattern& named, int dtype, int* to) {
    auto kept = std::make_shared<const Checked>(std::move(from));
    Checked::write_elsewhere(named.hold(dtype, kept, kept->nbytes(nullptr)), to);
}
template <class Checked> Found find_held(std::shared_ptr<const Checked>& held, ProgramPattern& named, int dtype, const int* from) {
    const uint64_t number = Checked::elsewhere(from);
    if (!number) return Found::declined;
    held = std::static_pointer_cast<const Checked>(named.held(dtype, number));
    return held ? Found::here : Found::lost;
}

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
        bool accepted = into.factor(p, values, false, kept, work);
        if (kept != before) named.keep(dtype_number<T>(), kept);
        return accepted;
    }
    static void write(const Checked& from, const Pattern& p, ProgramPattern& named, Index numbers, int* to, T* values, Real<T>* real) {
        if (from.write(numbers - p.lu.n, to, values, real)) return;
        write_nothing(p, numbers, to, values, real);
        hold(from, named, dtype_number<T>(), to);
    }
    // Into a factor of the reader's, unless it is `held` elsewhere.
    static Found read(Checked& into, std::shared_ptr<const Checked>& held, const Pattern& p, ProgramPattern& named, const T* given, const int* from, const T* values, const Real<T>* real, typename Checked::Work& work) {
        held = nullptr;
        return into.read(p, given, from, values, real, work) ? Found::here : find_held(held, named, dtype_number<T>(), from);
    }
    static void write_nothing(const Pattern& p, Index numbers, int* to, T* values, Real<T>* real) { Checked::write_nothing(p.lu.n, numbers - p.lu.n, to, values, real); }
    static bool inverse_entries(const Checked& own, T* entries, int, typename Checked::Work& work) { return own.inverse_entries(entries, work); }
    static bool is_interrupted(const Checked&) { return false; }
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
        return into.factor(p, values, false, threads, work, numbers);
    }
    static void write(const Checked& from, const Pattern& p, ProgramPattern& named, Index, int* to, T* values, Real<T>* real) {
        if (from.write(to, real)) return;
        if constexpr (std::is_same_v<F<T>, Ldl<T>>) {
            from.made()->copy_panels();
            Checked::write_nothing(p, to, values, real);
            hold(from, named, dtype_number<T>(), to);
        }
    }
    static Found read(Checked& into, std::shared_ptr<const Checked>& held, const Pattern& p, ProgramPattern& named, const T* given, const int* from, const T* values, const Real<T>* real, typename Checked::Work& work) {
        held = nullptr;
        return into.read(p, given, from, values, real, work) ? Found::here : find_held(held, named, dtype_number<T>(), from);
    }
    static void write_nothing(const Pattern& p, Index, int* to, T* values, Real<T>* real) { Checked::write_nothing(p, to, values, real); }
    static bool inverse_entries(const Checked& own, T* entries, int threads, typename Checked::Work& work) { return own.inverse_entries(entries, threads, work); }
    static bool is_interrupted(const Checked& own) { return own.is_interrupted; }
};
