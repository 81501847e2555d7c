// Threads for the duration of one call. They are not those of another library's pool, which might wait for this call.
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

constexpr int MOST_THREADS = 1024;  // each has work arrays of its own, which are made before it is

// True if Ctrl-C was pressed, with Python's error set. bind/ sets this function.
inline bool (*interrupt_requested)() = [] { return false; };

// A team of threads for several rounds of work. The calling thread works, too, and polls for Ctrl-C.
class Team {
  public:
    explicit Team(int threads) : most_(std::clamp(threads, 1, MOST_THREADS)) {}
    ~Team();
    Team(const Team&) = delete;

    int size() const { return most_; }
    // work(i, t) for all i < count, each by one thread t < size(). False if a call returned false or threw, or after Ctrl-C.
    bool run(Index count, const std::function<bool(Index, int)>& work);
    // Thread t asks from time to time: false after an error, or after Ctrl-C.
    bool should_continue(int t) {
        if (t == 0) poll_interrupt();
        return !stopped_.load(std::memory_order_relaxed);
    }
    bool is_interrupted() const { return interrupted_; }  // then Python's error is set
    bool lacks_memory() const { return lacks_memory_; }

  private:
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

// Poll a team after many multiplications only: reading the clock takes as long as a small front.
class InterruptPoll {
  public:
    explicit InterruptPoll(Team& team) : team_(team) {}
    bool after(Index products) { return (done_ += products) < MANY || (done_ = 0, team_.should_continue(0)); }

  private:
    static constexpr Index MANY = 1 << 18;
    Team& team_;
    Index done_ = 0;
};

constexpr Index OWN = 200;  // rows of a matrix from which BLAS may use its own threads

// f(i, work) for all i < count matrices with `rows` rows, one Work for each thread. Each thread ends with its share, which is faster than a
// Team for one round. False as soon as one f is false, or without memory. Ctrl-C is not polled.
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
    Index parts = std::min<Index>(std::clamp(threads, 1, MOST_THREADS), std::max<Index>(count, 1)), begun = 1;
    std::vector<std::thread> others;
    std::optional<OneBlasThread> alone;
    if (parts > 1 || rows < OWN) alone.emplace();
    try {
        others.reserve(parts);
        for (; begun < parts; begun++) others.emplace_back(run, count * begun / parts, count * (begun + 1) / parts);
    } catch (const std::system_error&) {  // the system has no more threads: this thread does the rest
    }
    run(0, count / parts);
    if (begun < parts) run(count * begun / parts, count);
    for (std::thread& t : others) t.join();
    return accepted;
}
