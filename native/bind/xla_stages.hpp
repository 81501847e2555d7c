// What is asked is computed by one call of a program and answered by another one. The first never fails: it flags the members that it
// declines, so that XLA may move it out of a loop that runs zero times. The second asks Python for those, and stays where it is.
//
//     compute   arguments, ...                               -> results, flags (*members)
//     answer    arguments, results, flags, [where it stands]   -> results
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "xla_batches.hpp"

class Stage {
  public:
    bool is_answer = false;

    // By the last word of a rule; false where it is another one. So many results has the rule.
    bool read(const xla::Frame* frame, const std::string& rule, int results) {
        const std::string word = rule.substr(rule.rfind(' ') + 1);
        is_answer = word == "answer";
        results_ = results;
        frame_ = frame;
        return (is_answer || word == "compute") && int(frame->results.count) == results + !is_answer;
    }

    // Of so many members, where the rule has so many arguments of its own: results that were computed are handed on.
    bool read_flags(int own, Index members) {
        if (is_answer && int(frame_->arguments.count) < own + results_ + 1) return false;
        const xla::Buffer& flags = is_answer ? argument(own + results_) : result(results_);
        if (flags.dtype != xla::S32 || batch_of(flags, 0) != members) return false;
        flags_ = static_cast<int*>(flags.data);
        members_ = members;
        for (int i = 0; is_answer && i < results_; i++) {
            const xla::Buffer &from = argument(own + i), &to = result(i);
            if (from.dtype != to.dtype || from.rank != to.rank || !std::equal(to.dims, to.dims + to.rank, from.dims)) return false;
            if (from.data != to.data) std::memcpy(to.data, from.data, size_t(batch_of(to, 0)) * xla::size_of(to.dtype));
        }
        return true;
    }
    // How many arguments of the rule are before what else the call has.
    int arguments(int own) const { return is_answer ? own + results_ + 1 : own; }

    void write(const std::vector<char>& declined) const { std::copy(declined.begin(), declined.end(), flags_); }
    bool is_answered() const { return is_answer && std::all_of(flags_, flags_ + members_, [](int flag) { return flag == 0; }); }
    std::vector<char> declined() const {
        std::vector<char> found(members_);
        for (Index i = 0; i < members_; i++) found[i] = flags_[i] != 0;
        return found;
    }

  private:
    const xla::Buffer& argument(int i) const { return *static_cast<const xla::Buffer*>(frame_->arguments.each[i]); }
    const xla::Buffer& result(int i) const { return *static_cast<const xla::Buffer*>(frame_->results.each[i]); }

    const xla::Frame* frame_ = nullptr;
    int results_ = 0;
    Index members_ = 0;
    int* flags_ = nullptr;
};
