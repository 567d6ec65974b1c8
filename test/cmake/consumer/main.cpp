// Prints what the executors of this project are, a line each.
#include <cstdio>
#include <string>

std::string small();
std::string large();
std::string cells();

int main() { std::printf("%s\n%s\n%s\n", small().c_str(), large().c_str(), cells().c_str()); }
