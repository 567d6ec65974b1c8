#include "RunAll.h"

template bool transformer::runAll<float>(const Setup &, unsigned long long, double);
