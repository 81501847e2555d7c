// Each operation in a program is two calls, `compute` and `answer`. The first never fails: it flags the members that it declines, so that
// XLA may move it out of a loop that runs zero times. The second has Python compute the flagged members, and is not moved.
//
//     stage     compute: arguments, ...                               -> results, flags (*members)
//               answer:  arguments, results, flags, [where it stands]   -> results
#pragma once
#include <cstring>

#include "xla_call.hpp"

class Stage {
  public:
    // So many arguments and results are the rule's, before what else the call has.
    Stage(const XlaCall& call, int own, int results) : call_(call), own_(own), results_(results), is_answer_(call.text("stage") == "answer") {
        XlaCall::require((is_answer_ || call.text("stage") == "compute") && call.results == results + !is_answer_);
    }
    bool is_answer() const { return is_answer_; }
    // The number of arguments before those that an answer does not know, or before the arrays of a factor.
    int arguments() const { return is_answer_ ? own_ + results_ + 1 : own_; }

    // The flags of so many members; results that were computed are handed on.
    void read(Index members) {
        const View flags = is_answer_ ? call_.argument(own_ + results_) : call_.result(results_);
        XlaCall::require(flags.dtype == Dtype::i4 && flags.items() == members);
        flags_ = flags.as<int>();
        members_ = members;
        for (int i = 0; is_answer_ && i < results_; i++) {
            const View from = call_.argument(own_ + i), to = call_.result(i);
            XlaCall::require(from.is_like(to));
            if (from.data != to.data) std::memcpy(to.data, from.data, size_t(to.items()) * size_of(to.dtype));
        }
    }
    void write(const std::vector<char>& declined) const { std::copy(declined.begin(), declined.end(), flags_); }
    std::vector<Index> declined() const {
        std::vector<Index> which;
        for (Index i = 0; i < members_; i++)
            if (flags_[i]) which.push_back(i);
        return which;
    }

  private:
    const XlaCall& call_;
    const int own_, results_;
    const bool is_answer_;
    Index members_ = 0;
    int* flags_ = nullptr;
};
