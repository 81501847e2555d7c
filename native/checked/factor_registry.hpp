// The factors in memory, by the values of their matrices: equal matrices share one factor. The GIL is the lock.
// FactorRegistry finds a factor by a hash of the values. RecentFactors compares the values of the last few, so that a loop hashes nothing.
#pragma once
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "kernels/scalar.hpp"

// A hash of `bytes` bytes, eight at a time in four lanes, and of a number that says what else must be equal.
inline uint64_t hash_bytes(const void* values, size_t bytes, uint64_t kind) {
    constexpr uint64_t ODD = 0x9E3779B97F4A7C15u;
    uint64_t lane[4] = {kind, ~kind, kind * ODD, bytes}, word = 0;
    const char* at = static_cast<const char*>(values);
    for (; bytes >= 32; bytes -= 32, at += 32)
        for (int j = 0; j < 4; j++) {
            std::memcpy(&word, at + 8 * j, 8);
            lane[j] = (lane[j] ^ word) * ODD;
            lane[j] ^= lane[j] >> 29;
        }
    for (; bytes; bytes -= bytes < 8 ? bytes : 8, at += 8) {
        word = 0;
        std::memcpy(&word, at, bytes < 8 ? bytes : 8);
        lane[0] = (lane[0] ^ word) * ODD;
        lane[0] ^= lane[0] >> 29;
    }
    return ((lane[0] * 3 ^ lane[1]) * ODD ^ lane[2]) * ODD ^ lane[3];
}

template <class F> class FactorRegistry {
  public:
    void add(uint64_t key, F* factor) { table_.emplace(key, factor); }
    void remove(uint64_t key, F* factor) {
        auto range = table_.equal_range(key);
        for (auto at = range.first; at != range.second; ++at)
            if (at->second == factor) {
                table_.erase(at);
                return;
            }
    }
    // The first factor with this key for which matches(factor) is true.
    template <class Test> F* find(uint64_t key, Test matches) const {
        auto range = table_.equal_range(key);
        for (auto at = range.first; at != range.second; ++at)
            if (matches(*at->second)) return at->second;
        return nullptr;
    }
    template <class Do> void each(Do f) const {
        for (auto& entry : table_) f(*entry.second);
    }
    bool empty() const { return table_.empty(); }

  private:
    std::unordered_multimap<uint64_t, F*> table_;
};

// F::key() is the hash of its values.
template <class F> class RecentFactors {
  public:
    void add(F* factor) {
        if (recent_.size() == RECENT) {
            older_.add(recent_.front()->key(), recent_.front());
            recent_.erase(recent_.begin());
        }
        recent_.push_back(factor);
    }
    void remove(F* factor) {
        auto at = std::find(recent_.begin(), recent_.end(), factor);
        if (at != recent_.end())
            recent_.erase(at);
        else
            older_.remove(factor->key(), factor);
    }
    // The factor for which matches(factor) is true; `key()` is computed only if there are older factors.
    template <class Test, class Key> F* find(Test matches, Key key) const {
        for (F* factor : recent_)
            if (matches(*factor)) return factor;
        return older_.empty() ? nullptr : older_.find(key(), matches);
    }
    template <class Do> void each(Do f) const {
        for (F* factor : recent_) f(*factor);
        older_.each(f);
    }

  private:
    static constexpr size_t RECENT = 4;
    std::vector<F*> recent_;
    FactorRegistry<F> older_;
};
