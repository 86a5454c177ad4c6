awk -f errors.awk errors.txt > errors.h
