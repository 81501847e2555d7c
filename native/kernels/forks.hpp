// Locks that survive a fork: the new process has only the thread that forked, not the threads that held locks.
#pragma once
#include <mutex>
#include <new>

#if !defined(_WIN32)
#include <pthread.h>
#endif

// A lock for short sections. fork() takes it, so that in the new process it is free and its data are consistent.
inline std::mutex fork_safe_mutex;
inline unsigned forks = 0;  // between the first process and this one

[[maybe_unused]] inline const bool fork_handlers_installed = [] {
#if !defined(_WIN32)
    pthread_atfork([] { fork_safe_mutex.lock(); }, [] { fork_safe_mutex.unlock(); },
                   [] {
                       forks++;
                       fork_safe_mutex.unlock();
                   });
#endif
    return true;
}();

// A lock for long sections. In a forked process it is free, whoever held it before; its data may be incomplete there.
class ForkedMutex {
  public:
    void lock() {
        {
            std::lock_guard<std::mutex> lock(fork_safe_mutex);
            if (process_ != forks) new (&mutex_) std::mutex;
            process_ = forks;
        }
        mutex_.lock();
    }
    void unlock() { mutex_.unlock(); }

  private:
    std::mutex mutex_;
    unsigned process_ = 0;
};
