#include "Emit/Png.h"

#include <gtest/gtest.h>

using namespace sluice;

TEST(Png, SaysWhatABuildWithoutLibrsvgLacks) {
  auto picture = png({});
  ASSERT_FALSE(picture);
  EXPECT_EQ(llvm::toString(picture.takeError()),
            "this build has no PNG: install librsvg2-dev and build again");
}
