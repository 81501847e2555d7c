// Sparse patterns that XLA's programs name by a digest of their entries: analyses of the most recent ones.
#pragma once
#include <mutex>
#include <string>

#include "entry_pattern.hpp"
#include "lu.hpp"

// A pattern, and for each dtype the pivots of its last LU factor.
class ProgramPattern {
  public:
    explicit ProgramPattern(std::shared_ptr<const EntryPattern> pattern) : pattern(std::move(pattern)) {}
    const std::shared_ptr<const EntryPattern> pattern;

    std::shared_ptr<const Pivots> kept(int dtype) const;
    void keep(int dtype, std::shared_ptr<const Pivots> pivots);

  private:
    std::shared_ptr<const Pivots> kept_[4];
};

// The one with this name, or that of `make()`; null where there is none.
std::shared_ptr<ProgramPattern> program_pattern(const std::string& name);
std::shared_ptr<ProgramPattern> add_program_pattern(const std::string& name, std::shared_ptr<const EntryPattern> pattern);
void forget_program_patterns();
