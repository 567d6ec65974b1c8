// The schedules that are run, in double and in float, and the table that is printed of them.
#pragma once

namespace transformer {
struct Setup;

/// Trains with every schedule. False: something that was demanded does not hold, and has been printed.
template <class Real> bool runAll(const Setup &setup, unsigned long long steps, double tolerance);
extern template bool runAll<float>(const Setup &, unsigned long long, double);
extern template bool runAll<double>(const Setup &, unsigned long long, double);

} // namespace transformer
