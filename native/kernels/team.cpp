#include "team.hpp"

#include <system_error>

constexpr auto POLL_INTERVAL = std::chrono::milliseconds(50);  // between two polls for Ctrl-C

Team::~Team() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        is_over_ = true;
    }
    begins_.notify_all();
    for (std::thread& t : others_) t.join();
}

// Start the other threads; fewer, if the system has no more.
void Team::start_threads() {
    try {
        while (int(others_.size()) + 1 < most_) others_.emplace_back(&Team::run_rounds, this, int(others_.size()) + 1);
    } catch (const std::system_error&) {
    }
}

bool Team::run(Index count, const std::function<bool(Index, int)>& work) {
    if (count > 1) start_threads();
    {
        std::lock_guard<std::mutex> lock(mutex_);
        work_ = &work;
        count_ = count;
        next_ = 0;
        busy_ = count > 1 ? others_.size() : 0;
        if (busy_) round_++;
    }
    if (busy_) begins_.notify_all();
    run_tasks(0);
    std::unique_lock<std::mutex> lock(mutex_);
    while (!ends_.wait_for(lock, POLL_INTERVAL, [&] { return busy_ == 0; })) {
        lock.unlock();
        poll_interrupt();
        lock.lock();
    }
    return !stopped_;
}

void Team::run_rounds(int t) {
    for (unsigned seen = 0;; ) {
        {
            std::unique_lock<std::mutex> lock(mutex_);
            begins_.wait(lock, [&] { return is_over_ || round_ != seen; });
            if (is_over_) return;
            seen = round_;
        }
        run_tasks(t);
        std::lock_guard<std::mutex> lock(mutex_);
        if (--busy_ == 0) ends_.notify_one();
    }
}

void Team::run_tasks(int t) {
    try {
        for (Index i; should_continue(t) && (i = next_.fetch_add(1)) < count_;)
            if (!(*work_)(i, t)) stopped_ = true;
    } catch (const std::bad_alloc&) {
        lacks_memory_ = true;
        stopped_ = true;
    }
}

void Team::poll_interrupt() {
    auto now = std::chrono::steady_clock::now();
    if (now - polled_ < POLL_INTERVAL || interrupted_) return;
    polled_ = now;
    if (!interrupt_requested()) return;
    interrupted_ = true;
    stopped_ = true;
}
