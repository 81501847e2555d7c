// X = op(L)^-1 B, A = L L^H, A[order] = L U: finite in, no pivot that is zero, finite out; the rest is declined.
//
//     "triangular uplo op diag form ..."   A (*batch, n, n), B   X      diag U: ones that are not read
//     "cholesky ..."                       A (*batch, n, n)      L
//     "lu ..."                             A (*batch, m, n)      L and U in one, exchanges, order (*batch, m)
//
// Each in the two calls of xla_stages.hpp, which have no other arguments.
#include "xla_handlers.hpp"

#include <string>

#include "checked/factored.hpp"
#include "kernels/crew.hpp"
#include "kernels/lapack.hpp"
#include "xla_batches.hpp"
#include "xla_careful.hpp"
#include "xla_stages.hpp"

template <class T> class TriangleCall {
    using Units = typename Factored<T>::Units;
    struct Room {
        std::vector<T> a;
        Units units;
    };

  public:
    TriangleCall(xla::Frame* frame, const std::string& text) : frame_(frame), text_(text) {}

    xla::Error* run() {
        what_ = text_.substr(0, text_.find(' '));
        if (!read()) return xla::error(frame_, xla::INVALID_ARGUMENT, "ldiv: a call with other arguments than those of this version");
        if (stage_.is_answer) return stage_.is_answered() ? nullptr : careful(stage_.declined());
        std::vector<char> declined(outs_, 0);
        double operations = double(outs_) * m_ * n_ * (is_solve() ? columns_ : m_);
        bool done = each<Room>(outs_, std::max(m_, n_), xla_threads(operations), [&](Index o, Room& room) {
            declined[o] = !(is_solve() ? solve(o) : what_ == "lu" ? lu(o, room) : cholesky(o, room));
            return true;
        });
        if (!done) return xla::error(frame_, xla::RESOURCE_EXHAUSTED, "ldiv: no memory for a dense factorization");
        stage_.write(declined);
        return nullptr;
    }

  private:
    const xla::Buffer& argument(int i) const { return *static_cast<const xla::Buffer*>(frame_->arguments.each[i]); }
    const xla::Buffer& result(int i) const { return *static_cast<const xla::Buffer*>(frame_->results.each[i]); }
    template <class S> S* data(int i) const { return static_cast<S*>(result(i).data); }
    bool is_solve() const { return what_ == "triangular"; }

    bool read() {
        const int arguments = int(frame_->arguments.count), own = 1 + is_solve();
        if (!stage_.read(frame_, text_, what_ == "lu" ? 3 : 1) || arguments < own || (!stage_.is_answer && arguments != own)) return false;
        const xla::Buffer &a = argument(0), &y = result(0);
        if (a.rank < 2 || (what_ != "lu" && what_ != "cholesky" && !is_solve())) return false;
        m_ = int(a.dims[a.rank - 2]);
        n_ = int(a.dims[a.rank - 1]);
        a_ = static_cast<const T*>(a.data);
        outs_ = batch_of(a, 2);
        if (m_ < 1 || n_ < 1 || (what_ != "lu" && m_ != n_)) return false;
        if (!is_solve()) {
            auto is_whole = [&](int i, Index size) { return is_of_each(result(i), xla::S32, outs_, {size}); };
            return is_of_each(y, a.dtype, outs_, {m_, n_}) && (what_ != "lu" || (is_whole(1, std::min(m_, n_)) && is_whole(2, m_))) && stage_.read_flags(own, outs_);
        }
        if (text_.size() < 18) return false;
        lower_ = text_[11] == 'L';
        op_ = text_[13];
        unit_ = text_[15] == 'U';
        const int axes = text_[17] == 'v' ? 1 : 2;
        const xla::Buffer& b = argument(1);
        if (b.rank < axes || y.rank < axes || b.dtype != a.dtype || y.dtype != a.dtype || b.dims[b.rank - axes] != n_) return false;
        if (!std::equal(b.dims + b.rank - axes, b.dims + b.rank, y.dims + y.rank - axes) || !broadcasts(view(y), axes, view(a), 2) || !broadcasts(view(y), axes, view(b), axes)) return false;
        columns_ = axes == 1 ? 1 : int(b.dims[b.rank - 1]);
        outs_ = batch_of(y, axes);
        of_a_ = members(view(y), axes, view(a), 2);
        of_b_ = members(view(y), axes, view(b), axes);
        b_ = static_cast<const T*>(b.data);
        return stage_.read_flags(own, outs_);
    }

    // X^T op(L)^T = B^T: LAPACK reads rows as columns.
    bool solve(Index o) const {
        Index size = Index(n_) * columns_;
        const T *a = a_ + (of_a_.empty() ? o : of_a_[o]) * n_ * n_, *b = b_ + (of_b_.empty() ? o : of_b_[o]) * size;
        T* x = data<T>(0) + o * size;
        if (!size) return true;
        if (!all_finite(b, size)) return false;
        for (int r = 0; r < n_; r++) {
            const T* row = a + Index(r) * n_;
            int first = lower_ ? 0 : r + unit_, last = lower_ ? r + !unit_ : n_;
            if (!all_finite(row + first, last - first) || (!unit_ && row[r] == T(0))) return false;
        }
        std::copy(b, b + size, x);
        bool conjugated = op_ == 'C' && Scalar<T>::is_complex;
        for (Index j = 0; conjugated && j < size; j++) x[j] = conj_of(x[j]);
        char side = 'R', uplo = lower_ ? 'U' : 'L', diag = unit_ ? 'U' : 'N';
        char how = op_ == 'T' ? 'T' : op_ == 'H' ? 'C' : 'N';
        int n = n_, k = columns_;
        T one = T(1);
        Lapack<T>::trsm(&side, &uplo, &how, &diag, &k, &n, &one, const_cast<T*>(a), &n, x, &k);
        for (Index j = 0; conjugated && j < size; j++) x[j] = conj_of(x[j]);
        return all_finite(x, size);
    }

    bool cholesky(Index o, Room& room) const {
        Factored<T> own;
        own.n = n_;
        const T* a = a_ + o * n_ * n_;
        T* l = data<T>(0) + o * n_ * n_;
        if (!all_finite(a, Index(n_) * n_) || is_small(a, Index(n_) * n_) || !own.is_part(a, true, room.units)) return false;
        std::copy(own.m, own.m + Index(n_) * n_, l);
        char upper = 'U';  // of A^T = U^H U, and L = U^T
        int n = n_, info = 0;
        Lapack<T>::potrf(&upper, &n, l, &n, &info);
        for (int r = 0; r < n_; r++) std::fill(l + Index(r) * n_ + r + 1, l + Index(r + 1) * n_, T(0));
        return info == 0 && all_finite(l, Index(n_) * n_);
    }

    bool lu(Index o, Room& room) const {
        Index size = Index(m_) * n_;
        int m = m_, n = n_, most = std::min(m_, n_), info = 0;
        const T* a = a_ + o * size;
        T* packed = data<T>(0) + o * size;
        int *exchanges = data<int>(1) + o * most, *order = data<int>(2) + o * m_;
        if (!all_finite(a, size) || is_small(a, size)) return false;
        room.a.resize(size);
        transpose_rows(a, room.a.data(), m_, n_);
        Lapack<T>::getrf(&m, &n, room.a.data(), &m, exchanges, &info);
        transpose_columns(room.a.data(), packed, m_, n_);
        for (int r = 0; r < m_; r++) order[r] = r;
        for (int r = 0; r < most; r++) std::swap(order[r], order[--exchanges[r]]);
        return info >= 0 && all_finite(packed, size);
    }

    // So small that the reciprocal of a pivot may overflow: units are changed with care.
    static bool is_small(const T* a, Index count) {
        Real<T> most = 0;
        for (Index j = 0; j < count; j++) most = std::max(most, size_of(a[j]));
        return most < std::numeric_limits<Real<T>>::min() / eps<T>;
    }

    xla::Error* careful(const std::vector<char>& declined) const {
        std::vector<Index> which, of_a, of_b;
        for (Index o = 0; o < outs_; o++)
            if (declined[o]) {
                which.push_back(o);
                of_a.push_back(of_a_.empty() ? o : of_a_[o]);
                of_b.push_back(of_b_.empty() ? o : of_b_[o]);
            }
        if (which.empty()) return nullptr;
        Careful call(frame_, text_);
        call.add<T>(a_, of_a, m_, n_);
        if (is_solve()) call.add<T>(b_, of_b, n_, columns_);
        call.result(data<T>(0), which, is_solve() ? Index(n_) * columns_ : Index(m_) * n_);
        if (what_ == "lu") {
            call.result(data<int>(1), which, std::min(m_, n_));
            call.result(data<int>(2), which, m_);
        }
        return call.run(Index(which.size()));
    }

    xla::Frame* frame_;
    const std::string& text_;
    std::string what_;
    Stage stage_;
    int m_ = 0, n_ = 0, columns_ = 1;
    Index outs_ = 0;
    bool lower_ = false, unit_ = false;
    char op_ = 'N';
    const T *a_ = nullptr, *b_ = nullptr;
    std::vector<Index> of_a_, of_b_;
};

xla::Error* xla_triangles(xla::Frame* frame) {
    if (xla::says_version(frame)) return nullptr;
    const xla::Attributes& told = frame->attributes;
    if (told.count == 1 && told.kinds[0] == xla::STRING && frame->arguments.count >= 1) {
        const xla::Span& span = *static_cast<xla::Span*>(told.each[0]);
        std::string text(span.start, span.length);
        switch (static_cast<xla::Buffer*>(frame->arguments.each[0])->dtype) {
            case xla::F32: return TriangleCall<float>(frame, text).run();
            case xla::F64: return TriangleCall<double>(frame, text).run();
            case xla::C64: return TriangleCall<std::complex<float>>(frame, text).run();
            case xla::C128: return TriangleCall<std::complex<double>>(frame, text).run();
            default: break;
        }
    }
    return xla::error(frame, xla::INVALID_ARGUMENT, "ldiv: a call that this version does not know");
}
