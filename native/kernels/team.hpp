// Threads for the time of one call, our own: those of a pool of others might wait for us.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "blas_threads.hpp"
#include "scalar.hpp"

// Is the work to stop, for Ctrl-C was pressed? Who binds Python says how this is asked; a true answer leaves Python's error set.
inline bool (*interrupt_requested)() = [] { return false; };

// For several rounds of work. The calling thread works, too, and asks now and then whether Ctrl-C was pressed.
class Team {
  public:
    explicit Team(int threads) : most_(std::clamp(threads, 1, MANY)) {}
    ~Team();
    Team(const Team&) = delete;

    int size() const { return most_; }
    // work(i, t) for all i < count, each by one thread t < size(); false if one of them was, or threw, or Ctrl-C was pressed.
    bool run(Index count, const std::function<bool(Index, int)>& work);
    // Asked by thread t from time to time: is nothing in the way?
    bool goes_on(int t) {
        if (t == 0) poll_interrupt();
        return !stopped_.load(std::memory_order_relaxed);
    }
    bool is_interrupted() const { return interrupted_; }  // then Python's error is set
    bool lacks_memory() const { return lacks_memory_; }

  private:
    static constexpr int MANY = 1024;  // threads: each has work arrays of its own, which are made before it is
    void start_threads();
    void run_rounds(int t);
    void run_tasks(int t);
    void poll_interrupt();

    const int most_;
    OneBlasThread alone_;
    std::vector<std::thread> others_;
    std::mutex mutex_;
    std::condition_variable begins_, ends_;
    const std::function<bool(Index, int)>* work_ = nullptr;
    std::atomic<Index> next_{0};
    Index count_ = 0;
    unsigned round_ = 0;
    size_t busy_ = 0;
    bool is_over_ = false, interrupted_ = false;
    std::atomic<bool> stopped_{false}, lacks_memory_{false};
    std::chrono::steady_clock::time_point polled_ = std::chrono::steady_clock::now();
};

// Asks a team now and then: to read the clock takes as long as a small front.
class InterruptPoll {
  public:
    explicit InterruptPoll(Team& team) : team_(team) {}
    bool after(Index products) { return (done_ += products) < MANY || (done_ = 0, team_.goes_on(0)); }

  private:
    static constexpr Index MANY = 1 << 18;
    Team& team_;
    Index done_ = 0;
};

constexpr Index OWN = 200;  // rows of a matrix from which BLAS may have threads of its own

// f(i, work) for all i < count matrices of so many rows, with one Work for each thread, that end with their share: a team, which waits
// for the next round, is woken twice more. False as soon as one f is; no memory is false, too. Ctrl-C is not heard.
template <class Work, class F> bool each(Index count, Index rows, int threads, F f) {
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
    std::optional<OneBlasThread> alone;
    if (parts > 1 || rows < OWN) alone.emplace();
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
