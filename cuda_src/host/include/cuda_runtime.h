// Everything a kernel needs from CUDA's own header is there already (../cuda.h).
#pragma once
