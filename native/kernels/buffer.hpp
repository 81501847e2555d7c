// Uninitialized memory for numbers; unused pages are not touched. std::bad_alloc if there is no memory.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "forks.hpp"
#include "scalar.hpp"

// The blocks that were freed last, reused for buffers of similar sizes. glibc may return the top of its heap to the system, and
// request it again page by page: at 600 x 600 these page faults cost up to two thirds of the arithmetic.
struct Block {
    void* at = nullptr;
    size_t bytes = 0;
};
class SpareBlocks {
  public:
    // A block of this size or up to a quarter more, or none.
    static Block take(size_t bytes) {
        if (bytes < LEAST || bytes > MOST) return {};
        std::lock_guard<std::mutex> lock(fork_safe_mutex);
        for (Block& block : blocks_)
            if (block.bytes >= bytes && block.bytes - bytes <= bytes / 4) return std::exchange(block, {});
        return {};
    }
    // Keep the block in place of the oldest one, which is freed; free it at once if its size does not suit.
    static void give(Block block) {
        if (block.bytes >= LEAST && block.bytes <= MOST) {
            std::lock_guard<std::mutex> lock(fork_safe_mutex);
            std::swap(block, blocks_[next_]);
            next_ = (next_ + 1) % COUNT;
        }
        std::free(block.at);
    }
    static void clear() {
        std::lock_guard<std::mutex> lock(fork_safe_mutex);
        for (Block& block : blocks_) std::free(std::exchange(block, Block()).at);
    }

  private:
#ifdef __SANITIZE_ADDRESS__
    static constexpr int COUNT = 1;
    static constexpr size_t LEAST = 1, MOST = 0;  // blocks are freed at once, so that the sanitizer finds reads of freed memory
#else
    static constexpr int COUNT = 4;
    static constexpr size_t LEAST = size_t(1) << 17, MOST = size_t(1) << 23;
#endif
    static inline Block blocks_[COUNT];
    static inline int next_ = 0;
};

constexpr size_t LARGE_PAGE = size_t(1) << 21;

// For numbers that are about to be written: the first touch of each small page costs as much as its arithmetic.
inline void use_large_pages([[maybe_unused]] void* at, [[maybe_unused]] size_t bytes) {
#ifdef __linux__
    const uintptr_t first = (uintptr_t(at) + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE, last = (uintptr_t(at) + bytes) / LARGE_PAGE * LARGE_PAGE;
    if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

template <class T> class Buffer {
  public:
    Buffer() = default;
    explicit Buffer(Index size) { grow(size); }
    // A view of memory that another object owns, and that outlives this one.
    static Buffer borrowed(T* at, Index size) {
        Buffer made;
        made.at_ = at;
        made.size_ = size;
        return made;
    }
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        std::swap(at_, other.at_);
        std::swap(size_, other.size_);
        std::swap(own_, other.own_);
        return *this;
    }
    ~Buffer() { release(); }

    // Room for `size` numbers; what was in it may be lost.
    T* grow(Index size) {
        if (size <= size_) return at_;
        release();
        if (size_t(size) > size_t(PTRDIFF_MAX) / sizeof(T)) throw std::bad_alloc();
        size_t bytes = size_t(size) * sizeof(T);
        own_ = SpareBlocks::take(bytes);
        if (!own_.at) own_ = {allocate(bytes), bytes};
        if (!own_.at) throw std::bad_alloc();
        at_ = static_cast<T*>(own_.at);
        size_ = size;
        return at_;
    }
    void free() { *this = Buffer(); }

    T* data() const { return at_; }
    T& operator[](Index i) const { return at_[i]; }
    Index size() const { return size_; }

  private:
    void release() {
        SpareBlocks::give(std::exchange(own_, {}));
        at_ = nullptr;
        size_ = 0;
    }
    static void* allocate(size_t bytes) {
        if (bytes < 2 * LARGE_PAGE) return std::malloc(bytes);
#ifdef __linux__
        void* at = std::aligned_alloc(LARGE_PAGE, (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE);
        if (at) use_large_pages(at, bytes);
        return at;
#else
        return std::malloc(bytes);
#endif
    }
    T* at_ = nullptr;
    Index size_ = 0;
    Block own_;  // none, if the memory is borrowed
};
