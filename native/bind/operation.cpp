#include "operation.hpp"

#include <sstream>
#include <stdexcept>

constexpr Index MANY = 8192;  // rows: LAPACK counts work arrays of n^2 numbers in 32 bits

static Argument parsed(const std::string& text) {
    Argument made;
    const size_t end = text.find(':'), kind = text.find(':', end + 1);
    made.name = text.substr(0, end);
    made.axes = text.substr(end + 1, kind - end - 1);
    if (kind != std::string::npos) made.kind = text[kind + 1];
    if ((made.is_optional = made.name.back() == '?')) made.name.pop_back();
    if ((made.has_columns = !made.axes.empty() && made.axes.back() == ')')) made.axes.resize(made.axes.size() - 3);
    return made;
}

Operation::Operation(std::string name, const std::string& given, const std::string& results, const std::string& letters) : name(std::move(name)) {
    std::string word;
    for (std::istringstream words(given); words >> word;) arrays.push_back(parsed(word));
    arguments = int(arrays.size());
    for (std::istringstream words(results); words >> word;) arrays.push_back(parsed(word));
    for (std::istringstream words(letters); words >> word;) options.push_back(word);
}

std::string Operation::axes(const Call& call, int j) const {
    return arrays[j].has_columns && call.options.find('v') == std::string::npos ? arrays[j].axes + 'k' : arrays[j].axes;
}

void Operation::bind(Call& call, const View* views) const {
    bool known = call.options.size() == options.size();
    for (size_t j = 0; known && j < options.size(); j++) known = options[j].find(call.options[j]) != std::string::npos;
    if (!known) throw std::invalid_argument(name + ": expected other options");
    for (size_t j = 0; j < arrays.size() && call.dtype == Dtype::none; j++)
        if (arrays[j].kind == 't') call.dtype = views[j].dtype;
    const View& first = views[arguments];  // of the results, which have the whole batch
    const int own = int(axes(call, arguments).size());
    if (!are_floats(call.dtype) || first.rank < own || !first.items()) throw std::invalid_argument(name + ": expected floats, and some");
    call.count = first.batch(own);
    for (int j = 0; j < int(arrays.size()); j++)
        if (!arrays[j].is_optional || views[j].dtype != Dtype::none) bind(call, j, views);
    const Index m = call.size('m'), n = call.size('n');
    bool fits = m < MANY && n < MANY && call.size('k') < (Index(1) << 30) / std::max<Index>(n, 1);
    fits = fits && (!call.sizes['p' - 'a'] || call.sizes['p' - 'a'] == call.size('p'));
    if (!fits) throw std::invalid_argument(name + ": expected smaller matrices, and min(m, n) numbers");
}

// The first result has the batch; what is an argument may be repeated along it.
void Operation::bind(Call& call, int j, const View* views) const {
    const View &x = views[j], &first = views[arguments];
    const std::string own = axes(call, j);
    const int rank = int(own.size()), rank_of_first = int(axes(call, arguments).size());
    const char kind = arrays[j].kind;
    const Dtype dtype = kind == 'r' ? real_of(call.dtype) : kind == 'c' ? complex_of(call.dtype) : kind == 'i' ? Dtype::i4 : kind == 'l' ? Dtype::i8 : call.dtype;
    bool fits = x.dtype == dtype && x.rank >= rank;
    for (int axis = 0; axis < rank && fits; axis++) {
        Index& known = call.sizes[own[axis] - 'a'];
        const Index size = x.axis(rank - axis);
        fits = size > 0 && (!known || known == size);
        known = size;
    }
    fits = fits && (j < arguments ? broadcasts(first, rank_of_first, x, rank) : x.batch(rank) == call.count);
    if (!fits) throw std::invalid_argument(arrays[j].name + ": expected (*batch, " + own + ") in the dtype that belongs to the others");
    call.operands[j] = {x.as<char>(), size_of(dtype), {}};
    for (int axis = 1; axis <= rank; axis++) call.operands[j].step *= size_t(x.axis(axis));
    if (j < arguments) call.operands[j].of = members(first, rank_of_first, x, rank);
}
