"""Tests: do two samples agree, and could a model have produced the data?"""
