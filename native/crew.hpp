// Threads for the time of one call. The calling thread works, too, and asks Python now and then whether Ctrl-C was pressed.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "scalar.hpp"

class Crew {
  public:
    explicit Crew(int threads) : most_(threads) {}
    ~Crew();
    Crew(const Crew&) = delete;

    int size() const { return most_; }
    // work(i, t) for all i < count, each by one thread t < size(); false if one of them was, or threw, or Ctrl-C was pressed.
    bool run(Index count, const std::function<bool(Index, int)>& work);
    // Asked by thread t from time to time: is nothing in the way?
    bool goes_on(int t) {
        if (t == 0) look();
        return !stopped_.load(std::memory_order_relaxed);
    }
    bool is_interrupted() const { return interrupted_; }  // then Python's error is set
    bool lacks_memory() const { return lacks_memory_; }

  private:
    void hire();
    void serve(int t);
    void take_part(int t);
    void look();

    const int most_;
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
    std::chrono::steady_clock::time_point looked_ = std::chrono::steady_clock::now();
};
