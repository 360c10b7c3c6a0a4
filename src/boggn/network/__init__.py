"""Networks: the finite one of the paper and the infinitely wide one."""
