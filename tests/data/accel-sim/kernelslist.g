MemcpyHtoD,0x00007f3000000000,1024
kernel-1.traceg
