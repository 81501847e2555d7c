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

    // Store a factor, and return the unique number, never 0, under which find_factor finds it. A number that is not found doubles
    // the capacity, up to a number of bytes.
    uint64_t store_factor(int dtype, std::shared_ptr<const void> factor, size_t bytes);
    std::shared_ptr<const void> find_factor(int dtype, uint64_t number);

  private:
    struct StoredFactor {
        int dtype;
        uint64_t number;
        std::shared_ptr<const void> factor;
        size_t bytes;
    };
    std::shared_ptr<const Pivots> kept_[4];
    std::list<StoredFactor> factors_;  // the last one first
    size_t capacity_ = 2;
};

// The one with this name, or that of `make()`; null where there is none.
std::shared_ptr<ProgramPattern> program_pattern(const std::string& name);
std::shared_ptr<ProgramPattern> add_program_pattern(const std::string& name, std::shared_ptr<const EntryPattern> pattern);
void forget_program_patterns();
