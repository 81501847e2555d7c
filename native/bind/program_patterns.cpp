#include "program_patterns.hpp"

#include <random>

#include "kernels/forks.hpp"

constexpr size_t RECENT = 16, BYTES = size_t(1) << 30;  // of all analyses but the last
constexpr size_t FACTOR_BYTES = size_t(1) << 28;                // bytes of the factors of a pattern, but the last

namespace {

struct Named {
    std::string name;
    std::shared_ptr<ProgramPattern> pattern;
};
std::list<Named> recent;  // the last used first

std::shared_ptr<ProgramPattern> found(const std::string& name) {
    for (auto at = recent.begin(); at != recent.end(); ++at)
        if (at->name == name) {
            recent.splice(recent.begin(), recent, at);
            return at->pattern;
        }
    return nullptr;
}

}  // namespace

std::shared_ptr<const Pivots> ProgramPattern::kept(int dtype) const {
    std::lock_guard<std::mutex> lock(fork_safe_mutex);
    return kept_[dtype];
}

void ProgramPattern::keep(int dtype, std::shared_ptr<const Pivots> pivots) {
    std::lock_guard<std::mutex> lock(fork_safe_mutex);
    kept_[dtype].swap(pivots);
}

// Numbers differ between processes, so that an array that was written to disk names no factor of this process.
static uint64_t next_number() {
    static uint64_t last = uint64_t(std::random_device()()) << 32;
    return ++last;
}

uint64_t ProgramPattern::store_factor(int dtype, std::shared_ptr<const void> factor, size_t bytes) {
    std::list<StoredFactor> dropped;  // freed after the lock is released
    std::lock_guard<std::mutex> lock(fork_safe_mutex);
    const uint64_t number = next_number();
    factors_.push_front({dtype, number, std::move(factor), bytes});
    size_t all = 0, count = 0;
    for (auto at = factors_.begin(); at != factors_.end(); ++at) {
        all += at->bytes;
        if (++count > 1 && (count > capacity_ || all > FACTOR_BYTES)) {
            dropped.splice(dropped.begin(), factors_, at, factors_.end());
            break;
        }
    }
    return number;
}

std::shared_ptr<const void> ProgramPattern::find_factor(int dtype, uint64_t number) {
    std::lock_guard<std::mutex> lock(fork_safe_mutex);
    for (const StoredFactor& one : factors_)
        if (one.number == number && one.dtype == dtype) return one.factor;
    capacity_ *= 2;
    return nullptr;
}

std::shared_ptr<ProgramPattern> program_pattern(const std::string& name) {
    std::lock_guard<std::mutex> lock(fork_safe_mutex);
    return found(name);
}

std::shared_ptr<ProgramPattern> add_program_pattern(const std::string& name, std::shared_ptr<const EntryPattern> pattern) {
    std::list<Named> dropped;  // freed after the lock is released
    auto made = std::make_shared<ProgramPattern>(std::move(pattern));
    std::lock_guard<std::mutex> lock(fork_safe_mutex);
    if (auto other = found(name)) return other;
    recent.push_front({name, made});
    size_t bytes = 0;
    for (auto at = std::next(recent.begin()); at != recent.end(); ++at) bytes += at->pattern->pattern->nbytes();
    while (recent.size() > 1 && (recent.size() > RECENT || bytes > BYTES)) {
        bytes -= recent.back().pattern->pattern->nbytes();
        dropped.splice(dropped.begin(), recent, std::prev(recent.end()));
    }
    return made;
}

void forget_program_patterns() {
    std::list<Named> dropped;
    std::lock_guard<std::mutex> lock(fork_safe_mutex);
    dropped.swap(recent);
}
