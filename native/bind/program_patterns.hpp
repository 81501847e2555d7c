// Sparse patterns that XLA's programs name by a digest of their entries: analyses of the most recent ones.
#pragma once
#include <cstdint>
#include <list>
#include <mutex>
#include <string>

#include "checked/entry_pattern.hpp"
#include "kernels/lu.hpp"

// A pattern, for each dtype the pivots of its last LU factor, and the last factors that have no room in the arrays of programs.
class ProgramPattern {
  public:
    explicit ProgramPattern(std::shared_ptr<const EntryPattern> pattern) : pattern(std::move(pattern)) {}
    const std::shared_ptr<const EntryPattern> pattern;

    std::shared_ptr<const Pivots> kept(int dtype) const;
    void keep(int dtype, std::shared_ptr<const Pivots> pivots);

    // A factor is found by its number, which is never 0 nor that of another one. Each that is looked for in vain doubles how many
    // are held, up to some bytes.
    uint64_t hold(int dtype, std::shared_ptr<const void> factor, size_t bytes);
    std::shared_ptr<const void> held(int dtype, uint64_t number);

  private:
    struct Held {
        int dtype;
        uint64_t number;
        std::shared_ptr<const void> factor;
        size_t bytes;
    };
    std::shared_ptr<const Pivots> kept_[4];
    std::list<Held> held_;  // the last one first
    size_t most_held_ = 2;
};

// The one with this name, or that of `make()`; null where there is none.
std::shared_ptr<ProgramPattern> program_pattern(const std::string& name);
std::shared_ptr<ProgramPattern> add_program_pattern(const std::string& name, std::shared_ptr<const EntryPattern> pattern);
void forget_program_patterns();
