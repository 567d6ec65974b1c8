#include "RunAll.h"

template bool transformer::runAll<double>(const Setup &, unsigned long long, double);
