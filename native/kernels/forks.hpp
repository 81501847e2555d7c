// Locks that survive a fork: the new process has only the thread that forked, not the threads that held locks.
#pragma once
#include <mutex>
#include <new>

#if !defined(_WIN32)
#include <pthread.h>
#endif

// Held for moments, and by whoever forks: in the new process it is free, and what it guards is whole.
inline std::mutex momentary;
inline unsigned forks = 0;  // between the first process and this one

[[maybe_unused]] inline const bool survives_a_fork = [] {
#if !defined(_WIN32)
    pthread_atfork([] { momentary.lock(); }, [] { momentary.unlock(); },
                   [] {
                       forks++;
                       momentary.unlock();
                   });
#endif
    return true;
}();

// Held for longer, and open in a forked process, whoever held it before; what it guards may be half written there.
class ForkedMutex {
  public:
    void lock() {
        {
            std::lock_guard<std::mutex> held(momentary);
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
