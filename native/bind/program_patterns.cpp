#include "program_patterns.hpp"

#include <random>

#include "kernels/forks.hpp"

constexpr size_t RECENT = 16, BYTES = size_t(1) << 30;  // of all analyses but the last
constexpr size_t HELD = size_t(1) << 28;                // bytes of the factors of a pattern, but the last

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
    std::lock_guard<std::mutex> held(momentary);
    return kept_[dtype];
}

void ProgramPattern::keep(int dtype, std::shared_ptr<const Pivots> pivots) {
    std::lock_guard<std::mutex> held(momentary);
    kept_[dtype].swap(pivots);
}

// Numbers differ between processes, so that an array that was written to disk names no factor of this process.
static uint64_t next_number() {
    static uint64_t last = uint64_t(std::random_device()()) << 32;
    return ++last;
}

uint64_t ProgramPattern::hold(int dtype, std::shared_ptr<const void> factor, size_t bytes) {
    std::list<Held> dropped;  // and freed without the lock
    std::lock_guard<std::mutex> held(momentary);
    const uint64_t number = next_number();
    held_.push_front({dtype, number, std::move(factor), bytes});
    size_t all = 0, count = 0;
    for (auto at = held_.begin(); at != held_.end(); ++at) {
        all += at->bytes;
        if (++count > 1 && (count > most_held_ || all > HELD)) {
            dropped.splice(dropped.begin(), held_, at, held_.end());
            break;
        }
    }
    return number;
}

std::shared_ptr<const void> ProgramPattern::held(int dtype, uint64_t number) {
    std::lock_guard<std::mutex> held(momentary);
    for (const Held& one : held_)
        if (one.number == number && one.dtype == dtype) return one.factor;
    most_held_ *= 2;
    return nullptr;
}

std::shared_ptr<ProgramPattern> program_pattern(const std::string& name) {
    std::lock_guard<std::mutex> held(momentary);
    return found(name);
}

std::shared_ptr<ProgramPattern> add_program_pattern(const std::string& name, std::shared_ptr<const EntryPattern> pattern) {
    std::list<Named> dropped;  // and freed without the lock
    auto made = std::make_shared<ProgramPattern>(std::move(pattern));
    std::lock_guard<std::mutex> held(momentary);
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
    std::lock_guard<std::mutex> held(momentary);
    dropped.swap(recent);
}
