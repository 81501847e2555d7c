// f(i, work) for all i in threads of our own; never in a pool of others, which might wait for us.
#pragma once
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "scalar.hpp"

// False as soon as one f is; no memory is false, too.
template <class Work, class F> bool each(Index count, int threads, F f) {
    std::atomic<bool> accepted{true};
    auto run = [&](Index first, Index last) {
        try {
            Work work;
            for (Index i = first; i < last && accepted.load(std::memory_order_relaxed); i++)
                if (!f(i, work)) accepted.store(false, std::memory_order_relaxed);
        } catch (const std::bad_alloc&) {
            accepted.store(false, std::memory_order_relaxed);
        }
    };
    Index parts = std::max<Index>(1, std::min<Index>(threads, count)), begun = 1;
    std::vector<std::thread> others;
    try {
        others.reserve(parts);
        for (; begun < parts; begun++) others.emplace_back(run, count * begun / parts, count * (begun + 1) / parts);
    } catch (const std::system_error&) {  // no more threads: the rest is done here
    }
    run(0, count / parts);
    if (begun < parts) run(count * begun / parts, count);
    for (std::thread& t : others) t.join();
    return accepted;
}
