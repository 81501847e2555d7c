// Memory for numbers that nobody set: pages that are not used are not taken; std::bad_alloc where there is none.
#pragma once
#include <cstdlib>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "scalar.hpp"

template <class T> class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(Index size) { grow(size); }
    // Numbers that are another's, who outlives this.
    static Buffer borrowed(T* at, Index size) {
        Buffer made;
        made.at_ = at;
        made.size_ = size;
        made.is_own_ = false;
        return made;
    }
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(at_, other.at_);
        std::swap(size_, other.size_);
        std::swap(is_own_, other.is_own_);
        return *this;
    }
    ~Buffer() { release(); }

    // Room for `size` numbers; what was in it may be lost.
    T* grow(Index size) {
        if (size <= size_) return at_;
        release();
        size_ = 0;
        is_own_ = true;
        if (size_t(size) > size_t(PTRDIFF_MAX) / sizeof(T)) throw std::bad_alloc();
        at_ = static_cast<T*>(allocate(size_t(size) * sizeof(T)));
        if (!at_) throw std::bad_alloc();
        size_ = size;
        return at_;
    }
    void free() { *this = Buffer(); }

    T* data() const { return at_; }
    T& operator[](Index i) const { return at_[i]; }
    Index size() const { return size_; }

  private:
    void release() {
        if (is_own_) std::free(at_);
        at_ = nullptr;
    }
    // In large pages, where there are: the first touch of each small one costs as much as its arithmetic.
    static void* allocate(size_t bytes) {
#ifdef __linux__
        if (bytes >= 2 * LARGE_PAGE) {
            void* at = std::aligned_alloc(LARGE_PAGE, (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE);
            if (at) madvise(at, bytes, MADV_HUGEPAGE);
            return at;
        }
#endif
        return std::malloc(bytes);
    }
    static constexpr size_t LARGE_PAGE = size_t(1) << 21;
    T* at_ = nullptr;
    Index size_ = 0;
    bool is_own_ = true;
};
